"""The two end-to-end tests of the proposal's test plan, by their names there: real kubectl, a real controller."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import CRDS, FINALIZER, Deadline, Kind, near, serve
from tests.spec.kep5673.programs import run

MACHINES = Path(__file__).parents[3] / "examples" / "01-virtual-machine"
Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Kubectl:
    binaries = KubeBinaries.find()
    require_real("kubectl", present=not binaries.missing("kubectl"), remedy="run: make kube")

    async def kubectl(*arguments: str) -> str:
        return await run(
            binaries.component("kubectl"),
            f"--kubeconfig={control_plane.kubeconfig}",
            f"--namespace={namespace}",
            f"--cache-dir={tmp_path}",
            *arguments,
        )

    return kubectl


@pytest.mark.kube  # which is where kubectl comes from; the server is ours
async def test_kubectl_integration(kind: Kind, kubectl: Kubectl) -> None:
    resource = f"{kind.plural}.{kind.group}"
    for name in ("plain", "graceful", "forced", "now"):
        await kind.create(name, FINALIZER)
    await kubectl("delete", resource, "plain", "--wait=false")
    assert await kind.deadline("plain") == Deadline(near(), None)
    await kubectl("delete", resource, "graceful", "--grace-period=300", "--wait=false")
    assert await kind.deadline("graceful") == Deadline(near(300), 300)
    await kubectl("delete", resource, "forced", "--force", "--grace-period=0", "--wait=false")
    assert await kind.deadline("forced") == Deadline(near(), 0)
    # kubectl itself turns 0 without --force, and --now, into one second.
    await kubectl("delete", resource, "now", "--now", "--wait=false")
    assert await kind.deadline("now") == Deadline(near(1), 1)

    described = " ".join((await kubectl("describe", resource, "graceful")).split())
    assert "Deletion Grace Period Seconds: 300" in described
    assert "Deletion Timestamp: " in described
    shown = yaml.safe_load(await kubectl("get", resource, "graceful", "-o", "yaml"))
    assert shown["metadata"]["deletionGracePeriodSeconds"] == 300
    path = "jsonpath={.metadata.deletionGracePeriodSeconds}"
    assert await kubectl("get", resource, "graceful", "-o", path) == "300"
    assert await kubectl("get", resource, "plain", "-o", path) == ""

    await kubectl("delete", resource, "graceful", "--grace-period=10", "--wait=false")
    assert await kind.deadline("graceful") == Deadline(near(10), 10)
    await kubectl("delete", resource, "--all", "--force", "--grace-period=0", "--wait=false")
    assert {(await kind.deadline(name)).seconds for name in ("plain", "graceful", "forced", "now")} == {0}
    for name in ("plain", "graceful", "forced", "now"):
        await kubectl("patch", resource, name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    assert await kubectl("get", resource, "-o", "name") == ""


async def test_end_to_end_custom_controller(
    control_plane: ControlPlane, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    """The example controller of virtual machines; tests/examples shows more of it."""
    manifest = yaml.safe_load((MACHINES / "definition.yaml").read_text(encoding="utf-8"))
    kind = await serve(api, manifest, namespace)
    command = [sys.executable, str(MACHINES / "controller.py"), f"--kubeconfig={control_plane.kubeconfig}"]
    controller = ManagedProcess("controller", command, folder=tmp_path)
    controller.start()
    try:
        async with api.watch(kind.path()) as watch:
            booted: list[str] = []

            async def last(name: str, grace: int, *, takes: str) -> tuple[str, float]:
                """How a machine ended whose shutdown takes that long, and how long after the request."""
                guest = [sys.executable, str(MACHINES / "guest.py"), takes]
                await kind.create(name, spec={"command": guest})
                await watch.until(lambda event: event["object"].get("status", {}).get("phase") == "Running")
                booted.append(name)
                log = controller.log
                await api.poll(
                    kind.path(name), lambda _: log.read_text(encoding="utf-8").count("booted") == len(booted)
                )
                asked = RealClock().now()
                await kind.delete(name, grace)
                event = await watch.until(lambda event: event["type"] == "DELETED")
                return event["object"]["status"]["phase"], (RealClock().now() - asked).total_seconds()

            how, seconds = await last("in-time", 300, takes="0.1")
            assert how == "ShutDown"
            assert seconds < 60
            how, seconds = await last("too-slow", 2, takes="3600")
            assert how == "PoweredOff"
            assert seconds >= 1  # whole seconds: the fraction of the first is dropped
            how, seconds = await last("forced", 0, takes="3600")
            assert how == "PoweredOff"
    finally:
        await controller.stop()
        (await api.delete(f"{CRDS}/{manifest['metadata']['name']}")).expect(200)
