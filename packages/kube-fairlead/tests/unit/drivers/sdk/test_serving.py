from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.driverapi import errors, socket_addresses
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel, GrpcRegistrationChannel
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk import sockets
from tests.unit.driverapi.scripted import OFFERED, WORK
from tests.unit.drivers.sdk.test_service import Counting

FOREVER = dataclasses.replace(WORK, deadline=None)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody announces, such as a name in a folder."""
    while not holds():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.001)


def options(folder: pathlib.Path, **changes: Any) -> sdk.Options:
    return dataclasses.replace(sdk.Options(registry=folder / "registry"), **changes)


async def test_a_driver_is_served_and_registers(short_path: pathlib.Path) -> None:
    driver = Counting()
    async with sdk.serving(driver, options(short_path)) as serving:
        assert serving.registration_socket == short_path / "registry" / "reboot.example.com-reg.sock"
        assert serving.service_socket == short_path / "registry-plugins" / "reboot.example.com.sock"
        registration = GrpcRegistrationChannel(str(serving.registration_socket))
        info = await registration.get_info()
        assert (info.type, info.name) == ("LifecyclePlugin", "example.com/reboot")
        assert info.supported_versions == ("v1alpha1.LifecycleDriver",)
        await registration.notify(registered=False, error="not yet")
        assert (serving.registered, serving.last_error) == (False, "not yet")
        await registration.notify(registered=True)
        assert serving.registered
        channel = GrpcDriverChannel(info.endpoint)
        assert list(await channel.get_transitions("n")) == [OFFERED]
        await channel.start(FOREVER)
        await channel.end(FOREVER, lambda _: None)
    assert driver.did == ["start uid-1", "end uid-1"]
    assert list(short_path.rglob("*.sock")) == []


async def test_registries_beside_each_other_have_a_driver_each(short_path: pathlib.Path) -> None:
    """As docs/drain.md says for several nodes of one machine."""
    one, other = (options(short_path, registry=short_path / name) for name in ("node-a", "node-b"))
    async with sdk.serving(Counting(), one) as first, sdk.serving(Counting(), other) as second:
        assert first.service_socket != second.service_socket
    usual = options(short_path, registry=short_path / sockets.DEFAULT_REGISTRY.name)
    assert usual.plugins_folder == short_path / "plugins"


@pytest.mark.parametrize(("first", "second"), [("", "new"), ("a", "b")])
async def test_a_new_version_is_there_before_the_old_one_goes(
    short_path: pathlib.Path, first: str, second: str
) -> None:
    old, new = Counting(), Counting()
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        leave = asyncio.Event()
        left = asyncio.Event()

        async def serve_old() -> None:
            async with sdk.serving(old, options(short_path, instance=first)):
                await leave.wait()
            left.set()

        scope.start(serve_old(), name="old")
        path = sockets.registration_socket(short_path / "registry", old.name, first)
        await until(path.exists)
        async with sdk.serving(new, options(short_path, instance=second)) as serving:
            leave.set()
            await left.wait()
            info = await GrpcRegistrationChannel(str(serving.registration_socket)).get_info()
            await GrpcDriverChannel(info.endpoint).start(FOREVER)
    assert (old.did, new.did) == ([], ["start uid-1"])


async def test_a_second_of_the_same_name_is_refused_and_the_first_serves_on(short_path: pathlib.Path) -> None:
    first = Counting()
    async with sdk.serving(first, options(short_path)) as serving:
        with pytest.raises(
            socket_addresses.AddressTaken, match=f"already serves {serving.service_socket}; .*--instance"
        ):
            async with sdk.serving(Counting(), options(short_path)):
                pytest.fail("it must not serve")
        elsewhere = options(short_path, plugins=short_path / "other")
        with pytest.raises(socket_addresses.AddressTaken, match=str(serving.registration_socket)):
            async with sdk.serving(Counting(), elsewhere):
                pytest.fail("it must not serve")
        assert list((short_path / "other").iterdir()) == []
        await GrpcDriverChannel(str(serving.service_socket)).start(FOREVER)
        assert (await GrpcRegistrationChannel(str(serving.registration_socket)).get_info()).name == first.name
    assert first.did == ["start uid-1"]


async def test_calls_under_way_have_their_grace(short_path: pathlib.Path) -> None:
    driver = Counting()
    driver.may_go_on.clear()
    async with tasks.TaskScope("test") as scope:
        async with sdk.serving(driver, options(short_path, grace_seconds=60)) as serving:
            channel = GrpcDriverChannel(str(serving.service_socket))
            call = scope.start(channel.end(FOREVER, lambda _: None), name="call")
            await driver.entered.wait()
            scope.start(_release(driver, serving.registration_socket), name="release")
        assert (await call).state == "Rebooted"


async def _release(driver: Counting, registration: pathlib.Path) -> None:
    # No new calls: the registration goes before anything else.
    await until(lambda: not registration.exists())
    driver.may_go_on.set()


async def test_what_is_left_after_the_grace_is_told_to_come_again(short_path: pathlib.Path) -> None:
    driver = Counting()
    driver.may_go_on.clear()
    clock = VirtualClock()

    async def call(path: pathlib.Path) -> None:
        with pytest.raises(errors.DriverGone):
            await GrpcDriverChannel(str(path)).end(FOREVER, lambda _: None)

    async def let_time_pass(registration: pathlib.Path) -> None:
        await until(lambda: not registration.exists())
        await until(lambda: clock.sleepers > 0)
        await clock.advance_to_next()

    async with tasks.TaskScope("test") as scope, sdk.serving(driver, options(short_path), clock=clock) as serving:
        scope.start(call(serving.service_socket), name="call")
        await driver.entered.wait()
        scope.start(let_time_pass(serving.registration_socket), name="time")
    assert driver.at_once == 0


def test_names_of_sockets_always_fit() -> None:
    folder = pathlib.Path("/var/lib/fairlead/plugins_registry")
    assert sockets.registration_socket(folder, "example.com/x").name == "x.example.com-reg.sock"
    assert sockets.registration_socket(folder, "x", "uid").name == "x-uid-reg.sock"
    long = sockets.registration_socket(folder, "example.com/x", "u" * 100)
    assert long.name.endswith("-reg.sock")
    assert len(bytes(long)) <= socket_addresses.PATH_BYTES_MAX
    assert long != sockets.registration_socket(folder, "example.com/x", "v" * 100)


def test_a_folder_that_leaves_no_room_is_refused_by_flag_and_limit(capsys: pytest.CaptureFixture[str]) -> None:
    fits = pathlib.Path("/" + "f" * (socket_addresses.FOLDER_BYTES_MAX - 1))
    long = sockets.registration_socket(fits, "example.com/x", "u" * 100)
    assert len(bytes(long)) == socket_addresses.PATH_BYTES_MAX
    too_long = fits / "g"
    with pytest.raises(socket_addresses.AddressTooLong, match="--plugin-dir"):
        sockets.service_socket(too_long, "example.com/x")
    with pytest.raises(SystemExit) as exited:
        sdk.main(Counting(), ["--registry-dir", str(too_long)])
    assert exited.value.code == 2
    assert "--registry-dir /ffff" in (said := capsys.readouterr().err)
    assert "at most 80" in said


ROOT = pathlib.Path(__file__).parents[4]  # where `tests.unit` is found
PROGRAM = """
from tests.unit.drivers.sdk.test_service import Counting
from kube_fairlead.drivers import sdk
class Driver(Counting):
    def __init__(self): pass
    async def start(self, work): pass
    async def end(self, work, report): pass
sdk.main(Driver())
"""


async def test_a_driver_as_a_program(short_path: pathlib.Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "--registry-dir", str(short_path / "registry"), "--instance", "pod-1", cwd=ROOT
    )
    path = short_path / "registry" / "reboot.example.com-pod-1-reg.sock"
    async with RealClock().timeout(30):
        await until(path.exists)
        assert (await GrpcRegistrationChannel(str(path)).get_info()).name == "example.com/reboot"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert list(short_path.rglob("*.sock")) == []


async def test_a_second_program_is_refused_and_what_a_killed_one_left_behind_is_replaced(
    short_path: pathlib.Path,
) -> None:
    arguments = [sys.executable, "-c", PROGRAM, "--registry-dir", str(short_path / "registry")]
    process = await asyncio.create_subprocess_exec(*arguments, cwd=ROOT)
    path = short_path / "registry" / "reboot.example.com-reg.sock"
    async with RealClock().timeout(60):
        await until(path.exists)
        second = await asyncio.create_subprocess_exec(*arguments, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
        _, said = await second.communicate()
        process.kill()
        await process.wait()
    assert second.returncode == 1
    assert b"error: another process already serves" in said
    assert b"Traceback" not in said
    driver = Counting()
    async with sdk.serving(driver, options(short_path)) as serving:
        await GrpcDriverChannel(str(serving.service_socket)).start(FOREVER)
        path.unlink()
        path.write_text("somebody else's now")
    assert driver.did == ["start uid-1"]
    assert path.read_text() == "somebody else's now"
