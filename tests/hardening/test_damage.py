"""A write-ahead log that is damaged while the server is down is refused with the ways out; one of them starts it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.control_plane import ControlPlaneFailed
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.hardening.load import PATH, revision_of


def flip_a_byte(wal: Path) -> None:
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 0x10
    wal.write_bytes(bytes(data))


def cut_in_half(wal: Path) -> None:
    data = wal.read_bytes()
    wal.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("damage", [flip_a_byte, cut_in_half, Path.unlink])
async def test_acknowledged_writes_are_never_lost_in_silence(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    plane = EmbeddedControlPlane(tmp_path)
    await plane.start()
    try:
        async with RawApi(plane.access()) as api:
            for number in range(20):
                newest = revision_of((await api.post(PATH, config_map(f"kept-{number}"))).expect(201))
        await plane.stop_server(hard=True)
        damage(tmp_path / "data" / "fairlead.db-wal")
        with pytest.raises(ControlPlaneFailed) as failure:
            await plane.start_server()
        named = re.search(r"has lost writes .* --accept-data-loss-since (\d+)", str(failure.value))
        assert named is not None, str(failure.value)
        since = int(named[1])
        assert since < newest

        plane.apiserver.command.append(f"--accept-data-loss-since={since}")
        await plane.start_server()
        async with RawApi(plane.access()) as api:
            (await api.get(f"{PATH}/kept-19")).expect(404)
            assert revision_of((await api.post(PATH, config_map("new"))).expect(201)) > newest
        await plane.restart(hard=True)
        async with RawApi(plane.access()) as api:
            (await api.get(f"{PATH}/new")).expect(200)
    finally:
        await plane.stop()
