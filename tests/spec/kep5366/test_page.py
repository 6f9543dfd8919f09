"""docs/leader-election.md says what the code does: its programs are run as they stand there."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.manager import Controller
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366.components import until
from tests.unit.election.world import a_world
from tests.unit.manager.site import Site, copied

PAGE = (Path(__file__).parents[3] / "docs" / "leader-election.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- run: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

StartProgram = Callable[[str, str], ManagedProcess]


@pytest.fixture
async def start(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[StartProgram]:
    started: list[ManagedProcess] = []

    def start(program: str, name: str) -> ManagedProcess:
        source = tmp_path / f"{program}_program.py"
        source.write_text(PROGRAMS[program], encoding="utf-8")
        command = ["/usr/bin/env", f"KUBECONFIG={control_plane.kubeconfig}", sys.executable, str(source)]
        started.append(ManagedProcess(name, command, folder=tmp_path))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        await process.stop()


async def until_said(process: ManagedProcess, words: str) -> None:
    async def said() -> bool:
        assert process.running, process.log.read_text(encoding="utf-8")
        return words in process.log.read_text(encoding="utf-8")

    await until(said, what=f"{process.name} says {words!r}")


async def until_ended(process: ManagedProcess) -> None:
    async def ended() -> bool:
        return not process.running

    await until(ended, what=f"{process.name} ends")


async def test_the_plain_program(start: StartProgram, api: RawApi) -> None:
    assert len([line for line in PROGRAMS["plain"].splitlines() if line]) <= 10
    first = start("plain", "first")
    await until_said(first, "updates prices in term 0")
    second = start("plain", "second")
    first_holder = (await api.get(f"{LEASES}/price-updater")).expect(200)["spec"]["holderIdentity"]
    os.kill(first.pid, signal.SIGTERM)
    await until_ended(first)
    assert "Traceback" not in first.log.read_text(encoding="utf-8")
    await until_said(second, "updates prices in term 1")
    assert (await api.get(f"{LEASES}/price-updater")).expect(200)["spec"]["holderIdentity"] != first_holder
    os.kill(second.pid, signal.SIGINT)  # as Ctrl-C does
    await until_ended(second)
    assert "Traceback" not in second.log.read_text(encoding="utf-8")
    assert not (await api.get(f"{LEASES}/price-updater")).expect(200)["spec"].get("holderIdentity")
    (await api.delete(f"{LEASES}/price-updater")).expect(200)


async def test_the_operator_on_kopf(start: StartProgram, api: RawApi) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    first = start("kopf", "first")
    (await api.post(maps, config_map("page-x"))).expect(201)
    await until_said(first, "handled page-x")
    second = start("kopf", "second")
    # The lease is taken away: the operator ends, the process does not, and one of them operates again.
    (await api.patch(f"{LEASES}/my-operator", {"spec": {"holderIdentity": ""}})).expect(200)

    async def is_led_again() -> bool:
        spec = (await api.get(f"{LEASES}/my-operator")).expect(200)["spec"]
        return bool(spec.get("holderIdentity")) and spec["leaseTransitions"] >= 1

    await until(is_led_again, what="one leads again")
    (await api.post(maps, config_map("page-y"))).expect(201)

    async def is_handled() -> bool:
        return any("handled page-y" in process.log.read_text(encoding="utf-8") for process in (first, second))

    await until(is_handled, what="it is handled")
    assert first.running
    assert second.running
    for process in (second, first):
        os.kill(process.pid, signal.SIGTERM)
        await until_ended(process)
    for name in ("page-x", "page-y"):
        await api.delete(f"{maps}/{name}")
    (await api.delete(f"{LEASES}/my-operator")).expect(200)


async def test_the_manager(start: StartProgram, api: RawApi) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    first = start("manager", "first")
    (await api.post(maps, config_map("page-m"))).expect(201)
    await until_said(first, "hello page-m")
    second = start("manager", "second")
    os.kill(first.pid, signal.SIGUSR1)
    await until_said(second, "hello page-m")
    assert first.running
    for process in (first, second):
        os.kill(process.pid, signal.SIGTERM)
        await until_ended(process)
        assert "Traceback" not in process.log.read_text(encoding="utf-8")
    (await api.delete(f"{maps}/page-m")).expect(200)
    (await api.delete(f"{LEASES}/greeter")).expect(200)


def executed(name: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    exec(compile(PROGRAMS[name], name, "exec"), values)
    return values


async def test_the_controller(tmp_path: Path) -> None:
    controller = executed("controller")["copier"]
    assert isinstance(controller, Controller)
    async with a_world(tmp_path) as world:
        site = Site(world)
        leader, follower = site.start("a", controller), site.start("b", controller)
        await world.until(lambda: bool(leader.leads or follower.leads))
        maps = world.admin.of(core_v1.ConfigMap)
        await maps.create(core_v1.ConfigMap(metadata=ObjectMeta(name="x")), namespace="default")
        await world.clock.advance(1)
        assert "x" in await copied(world)
        (leader if leader.leads else follower).manager.step_down()
        await world.clock.advance(1)
        await maps.create(core_v1.ConfigMap(metadata=ObjectMeta(name="y")), namespace="default")
        await world.clock.advance(1)
        assert "y" in await copied(world)
        await site.close()
    assert tasks.live_tasks() == ()


def test_the_fence() -> None:
    made = executed("fence")
    assert [made[name]["kind"] for name in ("policy", "binding")] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert made["binding"]["spec"]["validationActions"] == ["Warn", "Audit"]


def test_every_flag_and_metric_on_the_page_exists() -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in (Path(__file__).parents[3] / "packages").glob("*/src/**/*.py")
    )
    for name in sorted(set(re.findall(r"(?:--[a-z-]{4,}[a-z]|fairlead_[a-z_]+[a-z])", PAGE))):
        assert name in sources, name
