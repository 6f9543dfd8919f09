from __future__ import annotations

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from tests.unit.client import scripted
from tests.unit.client.modelserver import ModelServer, client_of

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


async def test_it_goes_on_over_many_connections() -> None:
    server, clock = ModelServer(), VirtualClock()
    seen: list[str] = []

    async def read() -> None:
        async with client_of(server, clock).of(CONFIG_MAPS).follow(resource_version="1") as events:
            async for event in events:
                seen.append(event.resource_version)  # noqa: PERF401 - it is read while it grows

    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(read(), name="read")
        for number in range(6):
            await clock.settle()
            server.put(f"object-{number}")
            (server.cut, server.end, lambda: server.cut(inside_a_frame=True))[number % 3]()
            server.refusals = number % 2
            await clock.advance(60)
    assert seen == [str(version) for version in range(2, 8)]


async def test_a_watch_that_the_server_forgot_to_end_is_given_up() -> None:
    server, clock = ModelServer(), VirtualClock()
    started: list[float] = []
    original = server.stream

    def counted(request: object) -> object:
        started.append(clock.monotonic())
        return original(request)  # type: ignore[arg-type]  # passed on as it is

    server.stream = counted  # type: ignore[method-assign,assignment]  # to count connections

    async def read() -> None:
        async with client_of(server, clock).of(CONFIG_MAPS).follow(resource_version="1") as events:
            async for _ in events:
                pass

    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(read(), name="read")
        await clock.advance(700)
        assert len(started) == 2
        assert 330 <= started[1] <= 632


async def test_expired_and_forbidden_come_out() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.put("a")
    server.compact()
    async with client_of(server, clock).of(CONFIG_MAPS).follow(resource_version="1") as events:
        with pytest.raises(api_errors.Expired):
            await anext(events)


@pytest.mark.parametrize(("code", "cause"), [(401, ""), (403, ""), (404, ""), (504, "ResourceVersionTooLarge")])
async def test_what_time_does_not_heal_comes_out(code: int, cause: str) -> None:
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        body = scripted.status(code, "", causes=[{"reason": cause}])
        server.script(scripted.answers(body, status=code))
        async with client.of(CONFIG_MAPS).follow(resource_version="1") as events:
            with pytest.raises(api_errors.ApiError) as caught:
                await anext(events)
        assert caught.value.code == code


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    clock = VirtualClock()
    busy = scripted.status(429, "TooManyRequests", retryAfterSeconds=20)
    async with scripted.serving() as server, scripted.client_for(server.url, clock=clock) as client:
        server.script(
            scripted.answers(busy, status=429),
            scripted.streams(scripted.frame("ADDED", scripted.config_map("a", 2)), then="silence"),
        )
        async with (
            client.of(CONFIG_MAPS).follow(resource_version="1") as events,
            tasks.TaskScope("test") as scope,
        ):

            async def first() -> str:
                return (await anext(events)).resource_version

            reading = scope.start(first(), name="read")
            while not clock.sleepers or len(server.seen) < 1 or clock.next_deadline != 20:
                await clock.sleep(0)
            await clock.advance(19)
            assert len(server.seen) == 1
            await clock.advance(1)
        assert reading.result() == "2"
