"""Managers of a plug-in's cloud, as processes, on both control planes: what an outsider's provider can do to a node."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from fairlead.testing import ControlPlane
from fairlead.testing.rawhttp import RawApi
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
