"""Components find out in which group the kinds are served, whatever is up first."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from kube_fairlead.api import crds, reserved
from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane, EmbeddedControlPlane
from kube_fairlead_lab.testing.embedded import EmbeddedOptions
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.planes import BOTH, make_plane
from tests.spec.kep5683.conftest import CRDS
from tests.spec.kep5683.site import NODES, SECONDS, Site

DEFAULT, ALTERNATIVE = reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE
NONE = f"serves no LifecycleEvents, neither in {DEFAULT} nor in {ALTERNATIVE}"
CHECK = "lifecycle-api-group"


@pytest.fixture(params=BOTH)
def bare_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of the test's own, without the lifecycle kinds."""
    folder = tmp_path_factory.mktemp(request.param)
    options = EmbeddedOptions(flags=["--feature-gates=SpecializedLifecycleManagement=false"])
    plane = EmbeddedControlPlane(folder, options) if request.param == "embedded" else make_plane("kube", folder)
    yield from watch_over(request.config, plane)


class Components:
    """An agent with its driver, and a manager; none is told the group."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.site = Site(plane, folder, "node-1")
        self._plane = plane
        self._folder = folder
        self._port = ReservedPort()
        self._manager: ManagedProcess | None = None

    def start(self, *flags: str) -> None:
        self.site.start_agent("agent", "--finished-event-ttl=1m", *flags, port=True)
        self._port.release()
        way = [f"--kubeconfig={self._plane.kubeconfig}", f"--secure-port={self._port.number}"]
        command = [sys.executable, "-m", "kube_fairlead.cli", "controller-manager", *way, *flags]
        self._manager = ManagedProcess("manager", command, folder=self._folder)
        self._manager.start()

    def end(self) -> None:
        self.site.end()
        self._port.release()
        if self._manager is not None:
            self._manager.kill()

    async def until_said(self, words: str) -> None:
        """Both say so in /readyz."""
        clock = RealClock()
        async with clock.timeout(SECONDS):
            while not all(words in page for page in await self._pages()):
                await clock.sleep(0.1)

    async def _pages(self) -> list[str]:
        try:
            return [await self.site.scrape("/readyz?verbose"), await self._managers_page()]
        except aiohttp.ClientError:
            return [""]

    async def _managers_page(self) -> str:
        url = f"https://127.0.0.1:{self._port.number}/readyz?verbose"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as got:
            return await got.text()


@pytest.fixture
async def components(bare_plane: ControlPlane, short_path: Path) -> AsyncIterator[Components]:
    made = Components(bare_plane, short_path)
    async with RawApi(bare_plane.access()) as api:
        (await api.post(NODES, node_manifest("node-1"))).expect(201)
    try:
        yield made
    finally:
        made.end()


async def install(api: RawApi, group: str) -> None:
    for manifest in crds.crds(group):
        (await api.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(201)
    await api.poll(events(group), lambda answer: answer.code == 200)


def events(group: str) -> str:
    return f"/apis/{group}/v1alpha1/lifecycleevents"


async def carry_out(api: RawApi, site: Site, group: str) -> None:
    """The drain driver, which no flag names the group for, drains the node."""
    event = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": "event"},
        "spec": {"transitionName": "node-drain", "bindingNode": site.node},
    }
    site.start_drain_driver()
    (await api.post(events(group), event)).expect(201)
    await api.poll(f"{events(group)}/event", lambda got: got.json.get("status", {}).get("claimStatus") == "Succeeded")
    assert (await api.get(f"{NODES}/{site.node}")).expect(200)["spec"]["unschedulable"] is True
    assert "progress starts at zero" not in site.last_words()


async def test_the_server_comes_first_or_the_kinds_or_neither(bare_plane: ControlPlane, components: Components) -> None:
    await bare_plane.stop_server()
    components.start()
    await components.until_said(f"[-]{CHECK} failed: the API server cannot be asked for its API groups")
    await bare_plane.start_server()
    await components.until_said(f"[-]{CHECK} failed: this cluster {NONE}")
    async with RawApi(bare_plane.access(), timeout_seconds=SECONDS) as api:
        await install(api, ALTERNATIVE)
        await components.until_said(f"[+]{CHECK} ok: {ALTERNATIVE}")
        await carry_out(api, components.site, ALTERNATIVE)


async def test_two_groups_are_not_chosen_between(bare_plane: ControlPlane, components: Components) -> None:
    async with RawApi(bare_plane.access(), timeout_seconds=SECONDS) as api:
        await install(api, DEFAULT)
        await install(api, ALTERNATIVE)
        components.start()
        await components.until_said(
            f"[-]{CHECK} failed: this cluster serves LifecycleEvents in {DEFAULT} and {ALTERNATIVE}"
        )
        for manifest in crds.crds(ALTERNATIVE):
            (await api.delete(f"{CRDS}/{manifest['metadata']['name']}")).expect(200)
        await components.until_said(f"[+]{CHECK} ok: {DEFAULT}")
        await carry_out(api, components.site, DEFAULT)


async def test_a_flag_names_one_of_two(bare_plane: ControlPlane, components: Components) -> None:
    async with RawApi(bare_plane.access(), timeout_seconds=SECONDS) as api:
        await install(api, DEFAULT)
        await install(api, ALTERNATIVE)
        components.start(f"--lifecycle-api-group={ALTERNATIVE}")
        await components.until_said(f"[+]{CHECK} ok: {ALTERNATIVE}")
        await carry_out(api, components.site, ALTERNATIVE)
