from __future__ import annotations

import asyncio
import contextlib

import pytest

from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.api import errors as api_errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client import errors as client_errors

REFUSED = api_errors.BadRequest("no")
BROKEN = client_errors.ConnectionBroken("gone")


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (None, False),
        (REFUSED, False),
        (BROKEN, True),
        (ExceptionGroup("", [REFUSED]), False),
        (ExceptionGroup("", [REFUSED, BROKEN]), True),
    ],
)
@pytest.mark.parametrize("before", [False, True])
async def test_an_answer_is_one_even_when_it_is_a_refusal(error: Exception | None, lost: bool, before: bool) -> None:
    reach = ApiReachability(VirtualClock())
    reach.is_lost = before
    with contextlib.suppress(*API_ERRORS):
        async with reach.within(5):
            if error is not None:
                raise error
    assert reach.is_lost is lost


async def test_no_answer_in_time_is_none() -> None:
    clock = VirtualClock()
    reach = ApiReachability(clock)

    async def ask() -> None:
        async with reach.within(5):
            await asyncio.Event().wait()

    asking = asyncio.ensure_future(ask())
    await clock.advance(6)
    with pytest.raises(TimeoutError):
        await asking
    assert reach.is_lost
