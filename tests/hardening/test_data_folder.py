"""What happens to the data folder from outside: it vanishes under a server, or was made when the clock was wrong."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead_apiserver.security.pki.keyring import open_keyring, serving_names
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.hardening.load import PATH


def remove_log(data: Path) -> None:
    (data / "fairlead.db-wal").unlink()


def replace_database(data: Path) -> None:
    shutil.copyfile(data / "fairlead.db", data / "other")
    (data / "other").replace(data / "fairlead.db")


@pytest.mark.parametrize("harm", [shutil.rmtree, remove_log, replace_database])
async def test_a_server_ends_when_its_files_are_removed(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    plane = EmbeddedControlPlane(tmp_path)
    await plane.start()
    try:
        harm(tmp_path / "data")
        process = plane.apiserver._process
        assert process is not None
        assert await asyncio.to_thread(process.wait, 60) == 1
        words = plane.apiserver.last_words()
        assert "was removed or replaced while the server ran" in words
        assert "Traceback" not in words
    finally:
        await plane.stop()


async def test_no_write_is_acknowledged_that_would_not_last(tmp_path: Path) -> None:
    plane = EmbeddedControlPlane(tmp_path)
    await plane.start()
    try:
        async with RawApi(plane.access()) as api:
            (await api.post(PATH, config_map("before"))).expect(201)
            shutil.rmtree(tmp_path / "data")
            try:
                answer = await api.post(PATH, config_map("after"))
            except aiohttp.ClientError:
                return
            assert answer.code in {500, 503}
    finally:
        await plane.stop()


async def test_certificates_of_a_wrong_clock_are_issued_anew(tmp_path: Path) -> None:
    later = VirtualClock(dt.datetime.now(dt.UTC) + dt.timedelta(days=400))
    folder = tmp_path / "data" / "pki"
    wrong = open_keyring(folder, serving_names("127.0.0.1"), later, SystemRandomness())
    plane = EmbeddedControlPlane(tmp_path)
    await plane.start()
    try:
        async with RawApi(plane.access()) as api:
            (await api.get("/version")).expect(200)
        assert (folder / "ca.crt").read_bytes() != wrong.certificate_pem
        right = open_keyring(
            folder, serving_names("127.0.0.1"), VirtualClock(dt.datetime.now(dt.UTC)), SystemRandomness()
        )
        assert right.signing_key.key_id == wrong.signing_key.key_id
    finally:
        await plane.stop()
