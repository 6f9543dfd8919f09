from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from kube_fairlead import grace
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport

Message = MutableMapping[str, Any]


def answering(body: bytes) -> Client:
    async def application(scope: object, receive: object, send: Callable[[Message], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    clock = VirtualClock()
    return Client(InProcessTransport(application, clock=clock), clock=clock, randomness=SeededRandomness(1))


@pytest.mark.parametrize(
    ("version", "native"),
    [
        ("v1.36.4+fairlead-0.1.0", True),
        ("v1.36.4", False),
        ("v1.36.4+k3s1", False),
        ("v1.36.4-fairlead", False),
        ("", False),
    ],
)
async def test_who_answers(version: str, native: bool) -> None:
    async with answering(b'{"gitVersion":"%b","major":"1"}' % version.encode()) as client:
        assert await grace.is_native(client) is native


async def test_an_answer_that_is_none() -> None:
    async with answering(b"<html>") as client:
        with pytest.raises(errors.AnswerInvalid, match="invalid answer to /version"):
            await grace.is_native(client)
