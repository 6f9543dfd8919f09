"""Story 1 of KEP-5673, VM Graceful Shutdown, by the example controller and real processes."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api.time import parse_time
from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi, RawWatch
from tests.examples.conftest import MACHINES
from tests.spec.kep5673.objects import Kind

Json = dict[str, Any]
NEVER: list[str] = []


@dataclasses.dataclass
class Room:
    """A controller at work, and every change of its machines."""

    kind: Kind
    watch: RawWatch
    log: Path
    booted: int = 0

    async def boot(self, name: str, takes: list[str], **spec: Any) -> int:
        """A machine whose shutdown takes that long; the process that runs it."""
        command = [sys.executable, str(MACHINES / "guest.py"), *takes]
        await self.kind.create(name, spec={"command": command, **spec})
        running = await self.phase(name, "Running")
        pid: int = running["status"]["pid"]
        # The guest says so itself; only then does it hear its power button.
        await self.kind.api.poll(
            self.kind.path(name), lambda _: self.log.read_text(encoding="utf-8").count("booted") > self.booted
        )
        self.booted += 1
        return pid

    async def phase(self, name: str, phase: str) -> Json:
        event = await self.watch.until(
            lambda event: (
                event["object"]["metadata"]["name"] == name and event["object"].get("status", {}).get("phase") == phase
            )
        )
        obj: Json = event["object"]
        return obj

    async def gone(self, name: str) -> Json:
        """Its last state."""
        event = await self.watch.until(
            lambda event: event["object"]["metadata"]["name"] == name and event["type"] == "DELETED"
        )
        obj: Json = event["object"]
        return obj


@pytest.fixture
async def room(
    control_plane: ControlPlane,
    api: RawApi,
    namespace: str,
    served: dict[str, Kind],
    program: Callable[..., ManagedProcess],
) -> AsyncIterator[Room]:
    kind = dataclasses.replace(served[MACHINES.name], api=api, namespace=namespace)
    controller = program(
        "controller", sys.executable, MACHINES / "controller.py", f"--kubeconfig={control_plane.kubeconfig}"
    )
    async with api.watch(kind.path()) as watch:
        yield Room(kind, watch, controller.log)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_machine_that_shuts_down_in_time(room: Room) -> None:
    pid = await room.boot("obedient", ["0.2"])
    await room.kind.delete("obedient", 300)
    last = await room.gone("obedient")
    assert last["status"]["phase"] == "ShutDown"
    assert not runs(pid)
    assert "clean" in room.log.read_text(encoding="utf-8")
    assert parse_time(last["status"]["deadline"]) > RealClock().now()  # gone long before its deadline


async def test_a_machine_that_does_not_is_powered_off_at_the_deadline(room: Room) -> None:
    pid = await room.boot("stubborn", NEVER)
    await room.kind.delete("stubborn", 3)
    shutting = await room.phase("stubborn", "ShuttingDown")
    assert runs(pid)
    last = await room.gone("stubborn")
    assert last["status"]["phase"] == "PoweredOff"
    assert RealClock().now() >= parse_time(shutting["status"]["deadline"])
    assert not runs(pid)


async def test_less_time_later_is_obeyed(room: Room) -> None:
    pid = await room.boot("stubborn", NEVER)
    await room.kind.delete("stubborn", 300)
    await room.phase("stubborn", "ShuttingDown")
    await room.kind.delete("stubborn", 600)
    assert runs(pid)
    await room.kind.delete("stubborn", 1)
    assert (await room.gone("stubborn"))["status"]["phase"] == "PoweredOff"
    assert not runs(pid)


async def test_force_cuts_the_power_at_once(room: Room) -> None:
    pid = await room.boot("stubborn", NEVER)
    await room.kind.delete("stubborn", 0)
    last = await room.gone("stubborn")
    assert last["status"]["phase"] == "PoweredOff"
    assert "deadline" not in last["status"]  # nobody pressed the power button first
    assert not runs(pid)


async def test_force_overtakes_a_shutdown(room: Room) -> None:
    pid = await room.boot("stubborn", NEVER)
    await room.kind.delete("stubborn", 300)
    await room.phase("stubborn", "ShuttingDown")
    await room.kind.delete("stubborn", 0)
    await room.gone("stubborn")
    assert not runs(pid)


async def test_a_plain_delete_gets_the_machines_own_time(room: Room) -> None:
    pid = await room.boot("stubborn", NEVER, shutdownSeconds=2)
    await room.kind.delete("stubborn")
    shutting = await room.phase("stubborn", "ShuttingDown")
    assert parse_time(shutting["status"]["deadline"]) > parse_time(shutting["metadata"]["deletionTimestamp"])
    assert (await room.gone("stubborn"))["status"]["phase"] == "PoweredOff"
    assert not runs(pid)
