"""By whose clock the facts are judged."""

from __future__ import annotations

import datetime as dt
import email.utils
from typing import Any

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.doctor import collector


class Stub:
    """An API server that has /version and nothing else."""

    def __init__(self, date: str) -> None:
        self._headers = [(b"date", date.encode())] if date else []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        known = scope["path"] == "/version"
        await send({"type": "http.response.start", "status": 200 if known else 404, "headers": self._headers})
        await send({"type": "http.response.body", "body": b'{"gitVersion":"v1.36.4"}' if known else b"{}"})


@pytest.mark.parametrize("ahead", [dt.timedelta(hours=1), -dt.timedelta(minutes=1), dt.timedelta()])
async def test_now_is_the_time_of_the_api_server(ahead: dt.timedelta) -> None:
    clock = VirtualClock()
    date = email.utils.format_datetime(clock.now() + ahead, usegmt=True)
    assert abs(await now_by(clock, date) - (clock.now() + ahead)) < dt.timedelta(seconds=1)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 01 Jan 2024 00:00:00 -0000"])
async def test_without_a_date_it_is_the_time_here(date: str) -> None:
    clock = VirtualClock()
    assert await now_by(clock, date) == clock.now()


async def now_by(clock: VirtualClock, date: str) -> dt.datetime:
    transport = InProcessTransport(Stub(date), clock=clock)
    client = Client(transport, clock=clock, randomness=SeededRandomness(1), retry_policy=retry.NEVER)
    async with client:
        return (await collector.collect(client, "https://stub")).now
