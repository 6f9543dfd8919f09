"""One contract, two channels: over a socket, and in the caller's own task."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import stat
from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.rpc import client
from kube_fairlead.base.rpc.errors import StatusError
from kube_fairlead.driverapi import contracts, errors, server
from kube_fairlead.driverapi.channels import DriverChannel
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel, GrpcRegistrationChannel
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import PluginInfo, PodReport, Progress, Reached
from tests.unit.driverapi.scripted import OFFERED, WORK, ScriptedDriver

Serve = Callable[[ScriptedDriver], contextlib.AbstractAsyncContextManager[DriverChannel]]


@pytest.fixture(params=["memory", "grpc"])
def serve(request: pytest.FixtureRequest, short_path: pathlib.Path) -> Serve:
    @contextlib.asynccontextmanager
    async def by_memory(driver: ScriptedDriver) -> AsyncIterator[DriverChannel]:
        yield MemoryChannel(driver)

    @contextlib.asynccontextmanager
    async def by_grpc(driver: ScriptedDriver) -> AsyncIterator[DriverChannel]:
        path = short_path / "driver.sock"
        async with server.serving(path, server.DriverHandler(driver)):
            yield GrpcDriverChannel(str(path))

    return by_memory if request.param == "memory" else by_grpc


async def test_what_is_offered(serve: Serve) -> None:
    async with serve(ScriptedDriver()) as channel:
        assert list(await channel.get_transitions("node-1")) == [dataclasses.replace(OFFERED, node_name="node-1")]


async def test_a_start_carries_everything(serve: Serve) -> None:
    driver = ScriptedDriver()
    async with serve(driver) as channel:
        reached = await channel.start(WORK, timeout_seconds=30)
    assert reached == Reached(state="Rebooting", node_name="node-1")
    assert driver.heard == [("start", WORK)]


async def test_an_end_tells_of_its_progress_in_order(serve: Serve) -> None:
    pods = (PodReport(namespace="shop", name="web", uid="1", state="Blocked", attempts=2, blocked_by="a budget"),)
    steps = [Progress(done=done, total=3, unit="pods", message=f"pod {done}", pods=pods) for done in range(3)]
    seen: list[Progress] = []
    async with serve(ScriptedDriver(progress=steps)) as channel:
        assert (await channel.end(WORK, seen.append)).state == "Rebooted"
    assert seen == steps


async def test_a_refusal_keeps_its_words(serve: Serve) -> None:
    words = 'PDB "a/b" blocks: 100 %, für immer\nreally'
    async with serve(ScriptedDriver(error=errors.DriverRefused(words))) as channel:
        with pytest.raises(errors.DriverRefused) as caught:
            await channel.start(WORK)
        assert str(caught.value) == words
        with pytest.raises(errors.DriverRefused):
            await channel.end(WORK, lambda _: None)


async def test_a_bug_in_a_driver_is_its_answer(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(ScriptedDriver(error=KeyError("disk"))) as channel:
        with pytest.raises(errors.DriverRefused, match="KeyError: 'disk'"):
            await channel.start(WORK)


async def test_a_driver_may_ask_to_come_again(serve: Serve) -> None:
    async with serve(ScriptedDriver(error=errors.DriverGone("starting up"))) as channel:
        with pytest.raises(errors.DriverGone, match="starting up"):
            await channel.start(WORK)


@pytest.mark.parametrize("method", ["start", "end"])
async def test_cancelling_a_call_reaches_the_driver(
    serve: Serve, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = ScriptedDriver(hang=True)
    async with serve(driver) as channel, tasks.TaskScope("test") as scope:
        call = channel.start(WORK) if method == "start" else channel.end(WORK, lambda _: None)
        running = scope.start(call, name="call")
        await driver.entered.wait()
        running.cancel()
        await driver.cancelled.wait()
    assert [record for record in caplog.records if record.levelname != "INFO"] == [], "a caller may hang up"


async def test_a_driver_that_stops_in_the_middle_is_gone(short_path: pathlib.Path) -> None:
    driver = ScriptedDriver(hang=True)
    path = short_path / "driver.sock"
    async with tasks.TaskScope("test") as scope:
        async with server.serving(path, server.DriverHandler(driver)):
            call = scope.start(_expect_gone(GrpcDriverChannel(str(path))), name="call")
            await driver.entered.wait()
        await call
    assert not path.exists()


async def _expect_gone(channel: DriverChannel) -> None:
    with pytest.raises(errors.DriverGone):
        await channel.end(WORK, lambda _: None)


async def test_a_memory_driver_can_be_gone() -> None:
    channel = MemoryChannel(ScriptedDriver())
    channel.connected = False
    with pytest.raises(errors.DriverGone):
        await channel.start(WORK)


@pytest.mark.parametrize("path", ["/nowhere/driver.sock", "/" + "x" * 200, "nul\0l", ""])
async def test_nobody_listens(path: str) -> None:
    with pytest.raises(errors.DriverGone):
        await GrpcDriverChannel(path).start(WORK)


async def test_a_request_larger_than_the_window(short_path: pathlib.Path) -> None:
    options = {f"option-{number}": "x" * 1024 for number in range(400)}
    driver = ScriptedDriver()
    path = short_path / "driver.sock"
    async with server.serving(path, server.DriverHandler(driver)):
        await GrpcDriverChannel(str(path)).start(dataclasses.replace(WORK, options=options))
    assert driver.heard[0][1].options == options


async def test_an_answer_larger_than_the_window(short_path: pathlib.Path) -> None:
    many = [dataclasses.replace(OFFERED, name=f"transition-{number:05d}", node_name="n") for number in range(10_000)]
    path = short_path / "driver.sock"
    async with server.serving(path, server.DriverHandler(ScriptedDriver(offered=many))):
        assert len(await GrpcDriverChannel(str(path)).get_transitions("n")) == 10_000


async def test_more_progress_than_anybody_reads(short_path: pathlib.Path) -> None:
    steps = [Progress(done=done, total=5000) for done in range(5000)]
    seen: list[Progress] = []
    path = short_path / "driver.sock"
    async with server.serving(path, server.DriverHandler(ScriptedDriver(progress=steps))):
        await GrpcDriverChannel(str(path)).end(WORK, seen.append)
    assert [one.done for one in seen] == sorted({one.done for one in seen})
    assert seen[-1].done == 4999


async def test_registration(short_path: pathlib.Path) -> None:
    info = PluginInfo(
        type=contracts.PLUGIN_TYPE,
        name="example.com/reboot",
        endpoint="/run/reboot.sock",
        supported_versions=(contracts.DRIVER_VERSION,),
    )
    heard: list[tuple[bool, str]] = []
    path = short_path / "folder" / "reg.sock"
    handler = server.RegistrationHandler(info, lambda registered, error: heard.append((registered, error)))
    async with server.serving(path, handler):
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        channel = GrpcRegistrationChannel(str(path))
        assert await channel.get_info() == info
        await channel.notify(registered=True)
        await channel.notify(registered=False, error="no")
        assert [entry.name for entry in path.parent.iterdir()] == ["reg.sock"]
    assert heard == [(True, ""), (False, "no")]
    assert list(path.parent.iterdir()) == []


async def test_health_is_asked_and_watched(short_path: pathlib.Path) -> None:
    clock = VirtualClock()
    state = {"healthy": True}
    health = server.HealthHandler(frozenset({contracts.DRIVER_SERVICE}), lambda: state["healthy"], clock)
    path = short_path / "driver.sock"
    request_type, answer_type = contracts.method_types(contracts.HEALTH_SERVICE, "Check")

    def ask(method: str, service: str) -> AsyncIterator[bytes]:
        body = request_type(service=service).SerializeToString()
        return client.call(client.Target(str(path)), f"/{contracts.HEALTH_SERVICE}/{method}", body)

    async with server.serving(path, health):
        assert [answer_type.FromString(one).status async for one in ask("Check", contracts.DRIVER_SERVICE)] == [1]
        with pytest.raises(StatusError, match="unknown service"):
            await anext(ask("Check", "other"))
        watching = client.call(
            client.Target(str(path)), f"/{contracts.HEALTH_SERVICE}/Watch", request_type(service="").SerializeToString()
        )
        async with contextlib.aclosing(watching):
            assert answer_type.FromString(await anext(watching)).status == 1
            state["healthy"] = False
            await clock.advance(2)
            assert answer_type.FromString(await anext(watching)).status == 2
        unknown = client.call(
            client.Target(str(path)),
            f"/{contracts.HEALTH_SERVICE}/Watch",
            request_type(service="x").SerializeToString(),
        )
        async with contextlib.aclosing(unknown):
            assert answer_type.FromString(await anext(unknown)).status == 3


async def test_a_method_that_nobody_knows(short_path: pathlib.Path) -> None:
    path = short_path / "driver.sock"
    async with server.serving(path, server.HealthHandler(frozenset(), lambda: True, VirtualClock())):
        with pytest.raises(errors.DriverMisbehaved):
            await GrpcDriverChannel(str(path)).start(WORK)
    await asyncio.sleep(0)
