"""Lists of a past moment: what takes long is done in the thread for large objects, where users take turns."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec
import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Query, Request
from kube_fairlead_apiserver.http.streams import Stream, iterate
from kube_fairlead_apiserver.server import ApiServer
from kube_fairlead_apiserver.storage.entries import Change
from kube_fairlead_apiserver.storage.snapshot import Snapshot
from kube_fairlead_apiserver.storage.table import undo
from kube_fairlead_lab.testing.manifests import config_map
from tests.inprocess import serving

PATH = "/api/v1/namespaces/default/configmaps"
PEOPLE = {"secret": UserInfo(name="admin", groups=("system:masters",))}


async def ask(server: ApiServer, method: str, body: object = None, **query: str) -> dict[str, object]:
    async def read() -> bytes:
        return b"" if body is None else json.dumps(body).encode()

    headers = {"authorization": "Bearer secret", "content-type": "application/json"}
    pairs = {name: [value] for name, value in query.items()}
    answer = await server.handle(Request(method, PATH, Query(pairs), headers, read, target=PATH))
    if isinstance(answer.body, Stream):
        text = b"".join([piece async for piece in iterate(answer.body)])
    else:
        text = b"".join([answer.body] if isinstance(answer.body, bytes) else answer.body)
    assert answer.status in {200, 201}, text
    return msgspec.json.decode(text, type=dict[str, object])


@pytest.mark.parametrize(("changes", "in_thread"), [(20, False), (1_000, True)])
async def test_many_changes_are_undone_in_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int, in_thread: bool
) -> None:
    undone: list[bool] = []

    def watched(since: list[Change], now: Snapshot) -> Snapshot:
        undone.append(threading.current_thread() is not threading.main_thread())
        return undo(since, now)

    monkeypatch.setattr("kube_fairlead_apiserver.verbs.list.undo", watched)
    async with serving(tmp_path, VirtualClock(), tokens=PEOPLE) as server:
        first = await ask(server, "POST", config_map("first", {}))
        metadata = first["metadata"]
        assert isinstance(metadata, dict)
        for number in range(changes):
            await ask(server, "POST", config_map(f"later-{number}", {}))
        past = await ask(server, "GET", resourceVersion=metadata["resourceVersion"], resourceVersionMatch="Exact")
    items = past["items"]
    assert isinstance(items, list)
    assert "first" in [item["metadata"]["name"] for item in items]
    assert not [item for item in items if item["metadata"]["name"].startswith("later")]
    assert undone == [in_thread]
