"""Whose token opens what; the API server is a stub that counts how often it is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.manager.delegated_authorization import ALWAYS_ALLOWED, DelegatedAuthorizer, is_always_allowed


class Stub:
    """An API server that knows the tokens `may` and `may-not`."""

    def __init__(self) -> None:
        self.is_up = True
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self.is_up:
            raise ConnectionError("down")
        body = json.loads((await receive())["body"])
        self.asked.append(body)
        if body["kind"] == "TokenReview":
            name = body["spec"]["token"]
            known = name in {"may", "may-not"}
            body["status"] = {
                "authenticated": known,
                "user": {"username": name, "groups": ["g"], "extra": {"k": ["v"]}},
            }
        else:
            body["status"] = {"allowed": body["spec"]["user"] == "may"}
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


class Gate:
    def __init__(self) -> None:
        self.stub, self.clock = Stub(), VirtualClock()
        self.keeper = DelegatedAuthorizer(self.connect)

    def connect(self) -> Client:
        transport = InProcessTransport(self.stub, clock=self.clock)
        return Client(transport, clock=self.clock, randomness=SeededRandomness(1), retry_policy=retry.NEVER)

    async def status(self, path: str, authorization: str = "") -> int:
        refusal = await self.keeper.check(path, authorization)
        return 200 if refusal is None else int(refusal.status)


@pytest.mark.parametrize(
    ("path", "authorization", "status", "asked"),
    [
        ("/healthz", "", 200, 0),
        ("/livez", "Bearer nobody", 200, 0),
        ("/metrics", "", 401, 0),
        ("/metrics", "Bearer ", 401, 0),
        ("/metrics", "Basic bWF5OnB3", 401, 0),
        ("/metrics", "Bearer nobody", 401, 1),
        ("/metrics", "Bearer may-not", 403, 2),
        ("/metrics", "bearer may", 200, 2),
        ("/healthz/ping", "", 401, 0),
    ],
)
async def test_who_gets_what(path: str, authorization: str, status: int, asked: int) -> None:
    gate = Gate()
    async with gate.keeper.running():
        assert await gate.status(path, authorization) == status
        assert len(gate.stub.asked) == asked
        # What was asked a moment ago is not asked again; after a while it is.
        assert await gate.status(path, authorization) == status
        assert len(gate.stub.asked) == asked
        await gate.clock.advance(11)
        assert await gate.status(path, authorization) == status
        assert len(gate.stub.asked) == 2 * asked


async def test_the_user_is_shown_whole() -> None:
    gate = Gate()
    async with gate.keeper.running():
        await gate.status("/metrics", "Bearer may")
    assert gate.stub.asked[1]["spec"] == {
        "user": "may",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_what_cannot_be_asked_is_refused_and_not_remembered() -> None:
    gate = Gate()
    async with gate.keeper.running():
        gate.stub.is_up = False
        assert await gate.status("/metrics", "Bearer may") == 503
        assert await gate.status("/healthz") == 200
        gate.stub.is_up = True
        assert await gate.status("/metrics", "Bearer may") == 200
    assert await gate.status("/metrics", "Bearer may") == 503


async def test_made_up_tokens_do_not_fill_the_memory() -> None:
    gate = Gate()
    async with gate.keeper.running():
        for number in range(1000):
            await gate.status("/metrics", f"Bearer {number}")
    assert len(gate.keeper._remembered) <= 256
    assert not any(str(number) in str(gate.keeper._remembered.keys()).split("'") for number in range(10))


def test_patterns() -> None:
    assert is_always_allowed("/healthz", ALWAYS_ALLOWED)
    assert not is_always_allowed("/healthzz", ALWAYS_ALLOWED)
    assert is_always_allowed("/healthz/ping", ("/healthz/*",))
    assert is_always_allowed("/metrics", ("*",))
    assert not is_always_allowed("/metrics", ())
