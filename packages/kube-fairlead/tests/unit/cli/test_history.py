"""`fairlead history` against the embedded API server, and what it shows."""

from __future__ import annotations

import asyncio
import datetime as dt
import json

import pytest
import yaml

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, PodOutcome, RecordEntry, Requester
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing import EmbeddedControlPlane

NO_ENVIRONMENT = Environment({})
NOON = dt.datetime(2026, 7, 1, 12, 0, tzinfo=dt.UTC)


def entry(number: int, node_uid: str, requested_by: Requester, **changes: object) -> RecordEntry:
    fields = {
        "event_uid": f"uid-{number}",
        "event_name": f"drain-{number}",
        "transition_name": "node-drain",
        "node_uid": node_uid,
        "requested_by": requested_by,
        "claim_time": NOON,
        "completion_time": NOON + dt.timedelta(minutes=number),
        "result": "Succeeded",
        **changes,
    }
    return RecordEntry(**fields)  # type: ignore[arg-type]  # keyword by keyword it would be longer than the test


@pytest.fixture
def plane(fairlead_apiserver: EmbeddedControlPlane) -> EmbeddedControlPlane:
    async def run() -> None:
        async with fairlead_apiserver.client() as client:
            uid = (await client.of(Node).create(Node(metadata=ObjectMeta(name="here")))).uid
            await client.of(Node).create(Node(metadata=ObjectMeta(name="untouched")))
            alice = Requester(name="alice", source="Admission")
            kubectl = Requester(name="kubectl-create", source="FieldManager")
            pod = PodOutcome(
                namespace="shop", name="web-0", uid="p-1", state="Gone", attempts=3, blocked_by="by budget"
            )
            entries = (
                entry(12, uid, alice, pods=(pod,), pods_omitted=2),
                entry(5, "earlier-uid", kubectl, result="Failed", message="disk is full"),
            )
            record = NodeLifecycleRecord(metadata=ObjectMeta(name="here"), entries=entries, dropped_entries=3)
            await client.of(NodeLifecycleRecord).create(record)
            gone = NodeLifecycleRecord(metadata=ObjectMeta(name="gone"), entries=(entry(7, "gone-uid", alice),))
            await client.of(NodeLifecycleRecord).create(gone)

    asyncio.run(run())
    return fairlead_apiserver


def say(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    got = main(["history", f"--kubeconfig={plane.kubeconfig}", *words], environment=NO_ENVIRONMENT)
    captured = capsys.readouterr()
    assert got == code, captured
    return captured.out + captured.err


def test_all_nodes_newest_first(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = say(plane, capsys).splitlines()
    assert head.split()[:4] == ["COMPLETED", "NODE", "TRANSITION", "RESULT"]
    assert [line.split()[0] for line in lines] == [
        "2026-07-01T12:12:00Z",
        "2026-07-01T12:07:00Z",
        "2026-07-01T12:05:00Z",
    ]
    assert "here " in lines[0]
    assert "alice" in lines[0]
    assert "gone (earlier)" in lines[1]
    assert "here (earlier)" in lines[2]
    assert "kubectl-create (program)" in lines[2]
    assert "disk is full" in lines[2]


def test_one_node(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    page = say(plane, capsys, "here")
    assert "shop/web-0 (uid p-1): Gone, 3 attempts; blocked by budget" in page
    assert "2 more pods were dropped" in page
    assert "an earlier node of this name, uid earlier-uid" in page
    assert "3 older entries were dropped." in page
    assert "nothing yet" in say(plane, capsys, "untouched")
    assert "NotFound" in say(plane, capsys, "nowhere", code=1)
    assert "Succeeded" in say(plane, capsys, "gone")


def test_for_programs(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    (node,) = json.loads(say(plane, capsys, "here", "-o", "json"))["nodes"]
    assert node["recorded"][0]["pods"] == [
        {"namespace": "shop", "name": "web-0", "uid": "p-1", "state": "Gone", "attempts": 3, "blockedBy": "by budget"}
    ]
    assert [one["ofEarlierNode"] for one in node["recorded"]] == [False, True]
    assert {one["name"] for one in yaml.safe_load(say(plane, capsys, "-o", "yaml"))["nodes"]} == {"here", "gone"}


def test_status_shows_the_last_of_them(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", f"--kubeconfig={plane.kubeconfig}", "here"], environment=NO_ENVIRONMENT) == 0
    page = capsys.readouterr().out
    assert "Recorded:   node-drain Succeeded " in page
    assert "and 1 more; fairlead history here shows all" in page
