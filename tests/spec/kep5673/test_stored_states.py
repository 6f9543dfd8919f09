"""Rows 10 to 12: objects that are being deleted and have no finalizer left, as no request can leave them behind.

They are put into storage in that state, as an older server, a restored backup or a crash could leave them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest

from kube_fairlead_apiserver.launch import DATABASE
from kube_fairlead_apiserver.storage.interface import Row
from kube_fairlead_apiserver.storage.sqlite import SqliteLog
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import FINALIZER, Json, Kind, define

GROUP = "stored.example.com"


@pytest.fixture
async def kind(fairlead_apiserver: EmbeddedControlPlane) -> AsyncIterator[Kind]:
    async with RawApi(fairlead_apiserver.access()) as api:
        yield await define(api, GROUP, "default")


async def rewrite(plane: EmbeddedControlPlane, kind: Kind, states: Mapping[str, Json]) -> None:
    """Change what is stored about objects, behind the back of a stopped server. Their finalizers are lost."""
    await plane.stop_server()
    log = SqliteLog(plane.folder / "data" / DATABASE)
    rows = {(row.table, row.key): row for row in log.load()[1]}
    revision = max(row.revision for row in rows.values())
    for name, metadata in states.items():
        last = rows[f"{kind.plural}.{kind.group}", f"{kind.namespace}/{name}"]
        assert last.value is not None
        stored = msgspec.json.decode(last.value)
        del stored["metadata"]["finalizers"]
        stored["metadata"] |= metadata
        revision += 1
        await log.append([Row(revision, last.table, last.key, msgspec.json.encode(stored))])
    await log.close()
    await plane.start_server()


def state(seconds: int | None) -> Json:
    made: Json = {"deletionTimestamp": "2126-01-01T00:00:00Z"}
    return made if seconds is None else {**made, "deletionGracePeriodSeconds": seconds}


async def test_rows_10_to_12_with_no_finalizer_left_any_delete_removes(
    fairlead_apiserver: EmbeddedControlPlane, kind: Kind
) -> None:
    stored = {f"stored-{seconds}".lower(): state(seconds) for seconds in (None, 0, 30, 100_000)}
    for row, grace in ((10, None), (11, 0), (12, 30)):
        for name in stored:
            await kind.create(name, FINALIZER)
        await rewrite(fairlead_apiserver, kind, stored)
        for name, metadata in stored.items():
            found = (await kind.get(name))["metadata"]
            assert metadata.items() <= found.items()
            assert "finalizers" not in found
            (await kind.delete(name, grace)).expect(200)
            assert await kind.is_gone(name), f"row {row}, {name}"


async def test_such_an_object_goes_with_the_next_write_too(
    fairlead_apiserver: EmbeddedControlPlane, kind: Kind
) -> None:
    await kind.create("a", FINALIZER)
    await rewrite(fairlead_apiserver, kind, {"a": state(100_000)})
    (await kind.api.patch(kind.path("a"), {"spec": {"size": 2}})).expect(200)
    assert await kind.is_gone("a")
