from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import AsgiApplication, InProcessTransport
from tests.unit.client import scripted

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def client_of(application: AsgiApplication, clock: VirtualClock | None = None, **options: Any) -> Client:
    clock = clock or VirtualClock()
    transport = InProcessTransport(application, clock=clock, **options)
    return Client(transport, clock=clock, randomness=SeededRandomness(0), retry_policy=retry.NEVER, timeout_seconds=5)


async def start(send: Send, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def body(send: Send, chunk: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": more})


async def test_the_application_gets_the_request_whole() -> None:
    seen: dict[str, Any] = {}

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        seen.update(scope)
        seen["message"] = await receive()
        await start(send, 201, (b"X-Thing", b"yes"))
        await body(send, b'{"a":', more=True)
        await body(send, b"1}")

    async with client_of(application, extensions={"user": "jane"}, headers={"authorization": "Bearer x"}) as client:
        response = await client.request(
            "POST", "/api/v1/nodes/a%3Ab", query=(("dryRun", "All"), ("labelSelector", "a in (b)")), body={"x": 1}
        )
    assert (response.status, response.headers, response.body) == (201, {"x-thing": "yes"}, b'{"a":1}')
    assert (seen["type"], seen["method"], seen["path"]) == ("http", "POST", "/api/v1/nodes/a:b")
    assert seen["raw_path"] == b"/api/v1/nodes/a%3Ab"
    assert seen["query_string"] == b"dryRun=All&labelSelector=a+in+%28b%29"
    assert seen["message"] == {"type": "http.request", "body": b'{"x":1}', "more_body": False}
    assert seen["extensions"] == {"user": "jane"}
    headers = dict(seen["headers"])
    assert headers[b"authorization"] == b"Bearer x"
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == b"7"


async def test_a_watch_ends_when_the_client_goes() -> None:
    heard: list[str] = []

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await start(send)
        await body(send, scripted.frame("ADDED", scripted.config_map("a", 2)), more=True)
        heard.append((await receive())["type"])
        await body(send, b"into the void", more=True)
        heard.append("ended")

    clock = VirtualClock()
    client = client_of(application, clock)
    async with client.of(CONFIG_MAPS).watch(resource_version="1") as events:
        assert (await anext(events)).resource_version == "2"
        assert heard == []
    await clock.settle()
    assert heard == ["http.disconnect", "ended"]
    assert tasks.live_tasks() == ()
    await client.close()


async def test_cancelling_a_request_hangs_up_but_does_not_stop_the_server() -> None:
    happened: list[str] = []
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        arrived.set()
        await go_on.wait()
        happened.append("written")
        await start(send)
        await body(send, b"{}")

    clock = VirtualClock()
    async with client_of(application, clock) as client:
        async with tasks.TaskScope("test") as scope:
            asking = scope.start(client.request("POST", "/x", body={}), name="ask")
            await arrived.wait()
            asking.cancel()
        assert asking.cancelled()
        go_on.set()
        await clock.settle()
    assert happened == ["written"]


async def test_a_slow_application_runs_out_of_time() -> None:
    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        assert (await receive())["type"] == "http.disconnect"

    clock = VirtualClock()

    async def ask(client: Client) -> None:
        with pytest.raises(errors.RequestTimedOut, match="within 5 s"):
            await client.request("GET", "/x")
        with pytest.raises(errors.RequestTimedOut, match="within 5 s"):
            async with client.stream("/x"):
                pass

    async with client_of(application, clock) as client, tasks.TaskScope("test") as scope:
        scope.start(ask(client), name="ask")
        await clock.advance(11)


@pytest.mark.parametrize("after_start", [False, True])
async def test_a_crash_is_a_broken_connection(*, after_start: bool) -> None:
    async def application(scope: Message, receive: Receive, send: Send) -> None:
        if after_start:
            await start(send)
            await body(send, b"{", more=True)
        raise ZeroDivisionError

    async with client_of(application) as client:
        with pytest.raises(errors.ConnectionBroken) as caught:
            await client.request("GET", "/x")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_reader_that_does_not_read_makes_the_server_wait() -> None:
    sent = 0

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal sent
        await start(send)
        for _ in range(1000):
            await body(send, b"x", more=True)
            sent += 1
        await body(send, b"")

    clock = VirtualClock()
    async with client_of(application, clock) as client, client.stream("/x") as response:
        await clock.settle()
        assert sent < 100
        assert await response.read() == b"x" * 1000


async def test_close_ends_what_does_not_listen() -> None:
    arrived = asyncio.Event()

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        arrived.set()
        await scripted.never()

    client = client_of(application)

    async def ask() -> None:
        with pytest.raises(errors.ConnectionBroken):
            await client.request("GET", "/x")

    async with tasks.TaskScope("test") as scope:
        scope.start(ask(), name="ask")
        await arrived.wait()
        await client.close()
    with pytest.raises(errors.ServerUnreachable, match="closed"):
        await client.request("GET", "/x")
    assert tasks.live_tasks() == ()
