from __future__ import annotations

import re
import socket
from collections.abc import Awaitable

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.election import Handle, NotLeading, StopReason, Term, Timing, lead, new_identity
from tests.unit.election.world import LOCK, World


async def test_leading_in_one_call(world: World) -> None:
    seen: list[str] = []

    async def work(term: Term) -> None:
        seen.append(f"{term.identity} leads {term.lock} in term {term.number}")
        await world.clock.sleep(3)

    async with tasks.TaskScope("test") as scope:
        leading = scope.start(lead(world.client("a"), LOCK, work, identity="me"), name="lead")
        await world.until(leading.done)
    assert seen == ["me leads kube-system/test in term 0"]
    assert (await world.record()).holder == ""


async def test_a_pause_ends_with_the_request_to_stop(world: World) -> None:
    seen: list[float] = []

    async def work(term: Term) -> None:
        while await term.pause(5):
            seen.append(world.clock.monotonic() - begun)

    begun = world.clock.monotonic()
    async with tasks.TaskScope("test") as scope:
        leading = scope.start(lead(world.client("a"), LOCK, work, identity="me"), name="lead")
        await world.clock.advance(12)
        leading.cancel()
        await world.clock.settle()
        assert leading.done()
    assert [round(moment) for moment in seen] == [5, 10]


async def test_a_handle_steps_down_and_the_process_stays(world: World) -> None:
    terms: list[int] = []

    async def work(term: Term) -> None:
        terms.append(term.number)
        while await term.pause(5):
            pass

    handle = Handle()
    assert not handle.step_down()
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        leading = scope.start(lead(world.client("a"), LOCK, work, identity="me", handle=handle), name="lead")
        await world.until(lambda: handle.term is not None)
        assert handle.step_down()
        await world.until(lambda: handle.term is None)
        assert (await world.record()).holder == ""
        await world.until(lambda: handle.term is not None)  # no other wants it
        assert not leading.done()
    assert terms == [0, 1]


@pytest.mark.parametrize("reason", [None, StopReason.YIELD, StopReason.LOST])
async def test_a_pause_never_returns_into_a_term_whose_lease_is_lost(world: World, reason: StopReason | None) -> None:
    """As in a process that was stopped: it wakes up after its lease, and nothing has asked it to end yet."""
    is_reliable = True
    term = Term(LOCK, identity="me", number=1, clock=world.clock, is_reliable=lambda: is_reliable)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        pausing = scope.start(_outcome(term.pause(5)), name="pause")
        await world.clock.advance(1)
        is_reliable = False
        if reason is not None:
            term.stop(reason)
        await world.clock.advance(10)
        assert isinstance(pausing.result(), NotLeading)


async def _outcome(pausing: Awaitable[bool]) -> bool | NotLeading:
    try:
        return await pausing
    except NotLeading as error:
        return error


async def test_timing_reaches_the_lease(world: World) -> None:
    timing = Timing(lease_duration_seconds=60, renew_deadline_seconds=40, retry_period_seconds=5)
    durations: list[int] = []

    async def work(_term: Term) -> None:
        durations.append((await world.record()).lease_duration_seconds)

    async with tasks.TaskScope("test") as scope:
        leading = scope.start(lead(world.client("a"), LOCK, work, timing=timing), name="lead")
        await world.until(leading.done)
    assert durations == [60]


@pytest.mark.parametrize("host", ["", "pod-7"])
async def test_identities_are_hosts_and_uuids(world: World, host: str) -> None:
    first, second = (new_identity(world.admin, host=host) for _ in range(2))
    assert first != second
    assert re.fullmatch(rf"{re.escape(host or socket.gethostname())}_[0-9a-f-]{{36}}", first)


async def test_a_pods_identity_names_the_pod_and_its_uid(world: World) -> None:
    first, second = (new_identity(world.admin, host="pod-7", pod_uid="u-1") for _ in range(2))
    assert first != second
    assert re.fullmatch(r"pod-7_u-1_[0-9a-z]{5}", first)
