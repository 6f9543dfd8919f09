"""Control planes that know the lifecycle kinds, nodes, and agents and drivers on them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kube_fairlead.api import crds
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.draining import Fleet, fleet_of
from tests.spec.kep5683.site import EVENTS, NODES, Site

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def install_kinds(plane: ControlPlane) -> None:
    """As `kubectl apply -f deploy/crds`, where the kinds are not built in."""
    if plane.kind == "embedded":
        return
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        for manifest in crds.crds():
            (await api.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(200, 201)
        for manifest in crds.crds():
            kinds = f"/apis/{manifest['spec']['group']}/v1alpha1/{manifest['spec']['names']['plural']}"
            await api.poll(kinds, lambda answer: answer.code == 200)


@pytest.fixture(scope="session")
def lifecycle_plane(control_plane: ControlPlane) -> ControlPlane:
    """The shared control plane, with the lifecycle kinds."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(install_kinds(control_plane))
    return control_plane


@pytest.fixture
async def admin(lifecycle_plane: ControlPlane) -> AsyncIterator[RawApi]:
    """The administrator, patient enough for a busy machine."""
    async with RawApi(lifecycle_plane.access(), timeout_seconds=180) as session:
        yield session


def make_site(plane: ControlPlane, name: str) -> Iterator[Site]:
    """A node of its own, with room for processes."""
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    site = Site(plane, folder, name)

    async def prepare() -> None:
        async with RawApi(plane.access()) as api:
            (await api.post(NODES, node_manifest(name))).expect(201)

    async def clean_up() -> None:
        async with RawApi(plane.access()) as api:
            left = (await api.get(EVENTS, fieldSelector=f"spec.bindingNode={name}")).expect(200)["items"]
            for event in left:
                path = f"{EVENTS}/{event['metadata']['name']}"
                (await api.delete(path)).expect(200)
                (await api.patch(path, {"metadata": {"finalizers": None}})).expect(200, 404)
            (await api.delete(f"{NODES}/{name}")).expect(200, 404)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(prepare())
        try:
            yield site
        finally:
            site.end()
            runner.run(clean_up())
            shutil.rmtree(folder)


@pytest.fixture
def site(lifecycle_plane: ControlPlane, unique_name: Callable[[str], str]) -> Iterator[Site]:
    """A node on which nothing runs yet."""
    yield from make_site(lifecycle_plane, unique_name("site"))


@pytest.fixture(scope="module")
def running_site(lifecycle_plane: ControlPlane, unique_name: Callable[[str], str]) -> Iterator[Site]:
    """A node with its agent and its driver, for all tests of a module that harm neither."""
    for made in make_site(lifecycle_plane, unique_name("site")):
        made.start_driver()
        made.start_agent("agent", "--platform=on-prem", "--driver-wait-timeout=3s", port=True)
        yield made


@pytest.fixture
async def bare_fleet(
    lifecycle_plane: ControlPlane, admin: RawApi, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Fleet]:
    """Two nodes on which neither agent nor driver runs yet."""
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    try:
        async with fleet_of(lifecycle_plane, admin, folder, unique_name("n"), namespace, 2) as made:
            yield made
    finally:
        shutil.rmtree(folder)


@pytest.fixture
async def fleet(bare_fleet: Fleet) -> Fleet:
    """Two nodes, the first with agent and driver."""
    bare_fleet.start(bare_fleet.node)
    await bare_fleet.ready()
    return bare_fleet
