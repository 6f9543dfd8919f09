"""A server whose disk is full: it deletes, says why it does not write, restarts, and writes again by itself."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane, EmbeddedOptions, components
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.hardening.load import PATH
from tests.smalldisk import fill, small_disk

HELD = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """With everything on it that a server writes: data, keys, kubeconfig, audit log, and its own output."""
    with small_disk(tmp_path / "disk", megabytes=24) as folder:
        yield folder


def large(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": "x" * 200_000}}


async def fill_server(api: RawApi) -> tuple[int, dict[str, Any]]:
    """Create objects until the server refuses one: how many it took, and what it said."""
    number = 0
    while (answer := await api.post(PATH, large(f"large-{number}"))).code == 201:
        number += 1
    return number, answer.json


async def start_alive(plane: EmbeddedControlPlane) -> None:
    """Start a server that is not ready, since its disk is full."""
    token = plane.access().token
    assert token is not None
    plane.apiserver.start()
    await wait_until_ready(
        lambda: components.answers_ok(f"{plane.url}/livez", plane.ca_file, token),
        [plane.apiserver],
        what="fairlead apiserver",
        timeout_seconds=60,
    )


async def test_deletions_go_on_and_writes_come_back(disk: Path) -> None:
    plane = EmbeddedControlPlane(disk, EmbeddedOptions(audit=True))
    await plane.start()
    try:
        async with RawApi(plane.access()) as api:
            (await api.post(PATH, HELD)).expect(201)
            fill(disk, leave=12 << 20)  # another program's
            stored, refusal = await fill_server(api)
            assert stored > 20
            assert refusal["code"] == 500
            assert refusal["message"].startswith("etcdserver: mvcc: database space exceeded: ")
            assert refusal["message"].endswith("no room left on the disk; only deletions are stored")
            ballast = fill(disk, leave=300_000)  # the room of the reserve is not only for the server
            (await api.patch(f"{PATH}/large-0", {"data": {"a": "b"}})).expect(500)
            ready = await api.get("/readyz")
            assert (ready.code, "[-]storage failed: " in ready.text, "no room left" in ready.text) == (500, True, True)
            assert (await api.get("/livez")).code == 200
            (await api.get(f"{PATH}/large-0")).expect(200)

            (await api.delete(f"{PATH}/held")).expect(200)
            # Objects that are being deleted may change, and not grow: the reserve is for getting rid of them.
            (await api.patch(f"{PATH}/held", {"data": {"text": "x" * 200_000}})).expect(500)
            (await api.patch(f"{PATH}/held", {"data": {"text": "x"}})).expect(200)
            (await api.patch(f"{PATH}/held", {"metadata": {"finalizers": None}})).expect(200)
            (await api.get(f"{PATH}/held")).expect(404)
            (await api.delete(f"{PATH}/large-0")).expect(200)

        fill(disk)  # not a byte is left
        await plane.stop_server(hard=True)
        await start_alive(plane)
        async with RawApi(plane.access()) as api:
            (await api.get(f"{PATH}/large-0")).expect(404)
            (await api.get(f"{PATH}/large-1")).expect(200)
            assert (await api.get("/readyz")).code == 500
            (await api.post(PATH, large("refused"))).expect(500)

            ballast.unlink()
            await api.poll("/readyz", lambda answer: answer.code == 200)
            (await api.post(PATH, large("accepted"))).expect(201)
        await plane.restart()
    finally:
        await plane.stop()
    assert plane.audit_log is not None
    for line in plane.audit_log.read_text().splitlines()[-3:]:
        json.loads(line)


async def test_what_is_deleted_makes_room(disk: Path) -> None:
    plane = EmbeddedControlPlane(disk)
    await plane.start()
    try:
        async with RawApi(plane.access()) as api:
            stored, _ = await fill_server(api)
            for number in range(0, stored, 2):
                (await api.delete(f"{PATH}/large-{number}")).expect(200)
            await api.poll("/readyz", lambda answer: answer.code == 200)
            (await api.post(PATH, large("new"))).expect(201)
            (await api.delete(PATH)).expect(200)
            (await api.get(f"{PATH}/new")).expect(404)
    finally:
        await plane.stop()


def start_on_any_port(disk: Path, folder: Path) -> ManagedProcess:
    command = [sys.executable, "-m", "kube_fairlead.cli", "apiserver", f"--data-dir={disk}", "--secure-port=0"]
    process = ManagedProcess("fairlead-apiserver", command, folder=folder)
    process.start()
    return process


async def ready_words(process: ManagedProcess) -> str:
    """The address that the server says it is ready on."""
    pattern = re.compile(r"fairlead apiserver is ready on (https://\S+)")

    async def said() -> bool:
        return pattern.search(process.last_words()) is not None

    await wait_until_ready(said, [process], what="fairlead apiserver", timeout_seconds=60)
    found = pattern.search(process.last_words())
    assert found is not None
    return found[1]


async def test_a_kubeconfig_is_written_when_there_is_room(disk: Path, tmp_path: Path) -> None:
    """Another port, so another kubeconfig; and not a byte for it, nor a reserve."""
    kubeconfig = disk / "admin.kubeconfig"
    (tmp_path / "first").mkdir()
    process = start_on_any_port(disk, tmp_path / "first")
    first = await ready_words(process)
    process.kill()
    assert first in kubeconfig.read_text()
    for reserve in disk.glob("*-reserve*"):
        reserve.unlink()
    ballast = fill(disk)
    before = kubeconfig.read_bytes()
    (tmp_path / "second").mkdir()
    process = start_on_any_port(disk, tmp_path / "second")
    try:
        second = await ready_words(process)
        assert second != first
        assert kubeconfig.read_bytes() == before, "whole, if old"
        assert "kubeconfig could not be written: no room left on the disk" in process.last_words()
        authority = disk / "pki" / "ca.crt"
        async with RawApi(Access(url=second, ca_file=authority, user="")) as api:
            ready = await api.get("/readyz")
            assert (ready.code, f"[-]kubeconfig failed: {kubeconfig} could not be written" in ready.text) == (500, True)
            assert second in ready.text
            ballast.unlink()
            await api.poll("/readyz", lambda answer: answer.code == 200)
        assert second in kubeconfig.read_text()
    finally:
        await process.stop(grace_seconds=20)
