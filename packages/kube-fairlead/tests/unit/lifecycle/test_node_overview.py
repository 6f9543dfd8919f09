from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition, NodeLifecycleRecord, RecordEntry
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY
from kube_fairlead.lifecycle.node_overview import NodeOverview, overview, recorded

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
GROUP = "lifecycle.k8s.io/v1alpha1"


def an_event(name: str, *, age: int = 0, **status: Any) -> LifecycleEvent:
    created = (NOW - dt.timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": name, "uid": name, "creationTimestamp": created}
    spec = {"transitionName": "t", "bindingNode": "n"}
    tree = {"apiVersion": GROUP, "kind": "LifecycleEvent", "metadata": metadata, "spec": spec, "status": status}
    return wire.from_dict(LifecycleEvent, tree)


def a_node(*, unschedulable: bool = False, annotations: dict[str, str] | None = None) -> Node:
    metadata = {"name": "n", "uid": "u", "annotations": annotations or {}}
    tree = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": unschedulable}}
    return wire.from_dict(Node, tree)


TRANSITION = wire.from_dict(
    LifecycleTransition,
    {
        "apiVersion": GROUP,
        "kind": "LifecycleTransition",
        "metadata": {"name": "t"},
        "spec": {"start": "A", "end": "B", "driver": "x/y", "allNodes": True},
    },
)


def see(node: Node | None, *events: LifecycleEvent, lease: Lease | None = None) -> NodeOverview:
    return overview("n", node, events, transitions={"t": TRANSITION}, lease=lease, now=NOW)


def test_events_are_split_by_status_and_in_order() -> None:
    shown = see(
        a_node(),
        an_event("young", age=1),
        an_event("old", age=9),
        an_event("running", claimStatus="Claimed", claimTime="2026-01-01T11:59:00Z"),
        an_event("done", claimStatus="Succeeded", completionTime="2026-01-01T11:00:00Z"),
    )
    assert shown.current is not None
    assert shown.current.name == "running"
    assert shown.current.since == NOW - dt.timedelta(minutes=1)
    assert [event.name for event in shown.waiting] == ["old", "young"]
    assert [event.name for event in shown.finished] == ["done"]
    # What is not claimed yet shows what the transition says now.
    assert (shown.waiting[0].start, shown.waiting[0].end, shown.waiting[0].driver) == ("A", "B", "x/y")


def test_a_record_in_another_order_is_shown_newest_first() -> None:
    entries = (
        RecordEntry(event_uid="b", transition_name="drain", completion_time=NOW, sequence=5),
        RecordEntry(event_uid="a", transition_name="uncordon", completion_time=NOW, sequence=9),
    )
    shown = recorded(NodeLifecycleRecord(metadata=ObjectMeta(name="n"), entries=entries), "u")
    assert [one.transition for one in shown] == ["uncordon", "drain"]


@pytest.mark.parametrize(("deadline", "left"), [("12:00:30", 30), ("11:59:00", -60)])
def test_the_time_that_is_left(deadline: str, left: int) -> None:
    shown = see(a_node(), an_event("e", claimStatus="Claimed", sla=f"2026-01-01T{deadline}Z"))
    assert shown.current is not None
    assert shown.current.left == dt.timedelta(seconds=left)
    ended = see(a_node(), an_event("e", claimStatus="SlaExpired", sla=f"2026-01-01T{deadline}Z"))
    assert ended.finished[0].left is None


def test_a_claimant_is_alive_or_does_not_renew() -> None:
    assert see(a_node()).claimant is None
    for seconds, is_alive in ((10, True), (70, False)):
        spec = LeaseSpec(
            holder_identity="agent", lease_duration_seconds=60, renew_time=NOW - dt.timedelta(seconds=seconds)
        )
        claimant = see(a_node(), lease=Lease(metadata=ObjectMeta(name="n"), spec=spec)).claimant
        assert claimant is not None
        assert claimant.is_alive is is_alive


def test_a_node_that_is_gone_still_has_events() -> None:
    shown = see(None, an_event("e"))
    assert not shown.exists
    assert shown.waiting[0].waits_for == "there is no node n"


def test_a_status_of_a_later_version_is_shown_as_it_is() -> None:
    shown = see(a_node(), an_event("e", claimStatus="Paused"))
    assert (shown.current, shown.waiting, shown.finished) == (None, (), ())


def test_whose_cordon_it_is() -> None:
    mark = {ANNOTATION_CORDONED_BY: "e"}
    assert see(a_node(unschedulable=True, annotations=mark)).cordoned_by == "e"
    assert see(a_node(unschedulable=True)).cordoned_by == ""
    # A mark that outlived its cordon says nothing.
    assert see(a_node(annotations=mark)).cordoned_by == ""
