"""Managers of a plug-in's cloud, as processes, on both control planes: what an outsider's provider can do to a node."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5778.cluster import NODES, create_node, set_ready
from tests.spec.kep5778.nimbus import Nimbus

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def nimbus(audited_plane: ControlPlane, tmp_path: pathlib.Path) -> AsyncIterator[Nimbus]:
    folder = tmp_path / "nimbus"
    folder.mkdir()
    async with RawApi(audited_plane.access(), timeout_seconds=60) as api:
        made = Nimbus(api, folder)
        made.write()
        try:
            yield made
        finally:
            if made.process is not None:
                await made.process.stop()


async def test_a_provider_that_breaks_its_protocol_deletes_nothing_and_ends_nothing(nimbus: Nimbus) -> None:
    """`exists` answers None, then raises, then wants to end the process; then it is mended."""
    nimbus.write(machines={"n1": "nimbus://n1"}, nonsense={"exists": "none"})
    for name in ("n1", "n2"):
        await create_node(nimbus.api, name, f"nimbus://{name}")
    await set_ready(nimbus.api, "n2", "Unknown")
    await nimbus.start()
    for kind in ("none", "raises", "exits"):
        nimbus.write(nonsense={"exists": kind})
        await nimbus.until_asked("exists", 1)
        (await nimbus.api.get(f"{NODES}/n2")).expect(200)
    nimbus.write(nonsense={"describe": "none"})
    await nimbus.until_asked("describe", 1)
    (await nimbus.api.get(f"{NODES}/n2")).expect(200)
    assert len(nimbus.calls("running")) == 1  # nothing had to begin anew
    nimbus.write(nonsense={})
    await nimbus.api.poll(f"{NODES}/n2", lambda answer: answer.code == 404)
    (await nimbus.api.get(f"{NODES}/n1")).expect(200)


async def test_an_annotation_moves_no_route_and_changes_no_node(nimbus: Nimbus) -> None:
    """A machine of nobody's is annotated as this cloud's, and the annotation is taken away again."""
    administrators = ["10.244.9.0/24", "router"]
    nimbus.write(machines={"n1": "nimbus://n1", "gpu": "nimbus://gpu"}, routes=[administrators])
    await create_node(nimbus.api, "n1", "nimbus://n1", pod_cidr="10.244.1.0/24")
    before = await create_node(nimbus.api, "gpu", pod_cidr="10.244.9.0/24")
    await create_node(nimbus.api, "lying", "nimbus://elsewhere", pod_cidr="10.244.8.0/24")
    await nimbus.start("--controllers=*,route", "--cluster-cidr=10.244.0.0/16")
    kept = {("10.244.1.0/24", "n1"), ("10.244.9.0/24", "router")}
    await nimbus.until(lambda: nimbus.routes == kept)
    for platform in ("nimbus", None):
        annotation = {"metadata": {"annotations": {ANNOTATION_PLATFORM: platform}}}
        (await nimbus.api.patch(f"{NODES}/gpu", annotation)).expect(200)
        await nimbus.until_asked("list_routes", 5)
        assert nimbus.routes == kept
    after = (await nimbus.api.get(f"{NODES}/gpu")).expect(200)
    assert {part: after[part] for part in ("spec", "status")} == {part: before[part] for part in ("spec", "status")}
    assert after["metadata"].get("labels") == before["metadata"].get("labels")
    assert nimbus.calls("delete_route") == []
    assert nimbus.calls("create_route") == [["n1", "10.244.1.0/24"]]
