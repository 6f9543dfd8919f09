from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.sim.commits import EVENTS, LEASES, NODES, PODS, THINGS, Commit
from kube_fairlead_lab.sim.narration.descriptions import describe

Json = dict[str, Any]
AT = "2026-01-01T00:01:30Z"


def item(name: str, *, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "spec": spec or {}, "status": status or {}}


def event(status: Json | None = None, **metadata: Any) -> Json:
    return item("e-1", spec={"transitionName": "reboot", "bindingNode": "node-3"}, status=status, **metadata)


def lease(holder: str, renewed: str = AT) -> Json:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 30}
    return item("boss", namespace="kube-system", spec=spec)


def node(**status: str) -> Json:
    conditions = [{"type": kind, "status": "True", "reason": reason} for kind, reason in status.items()]
    return item("node-3", status={"conditions": conditions})


def pod(phase: str, **metadata: Any) -> Json:
    return item("web-1", spec={"nodeName": "node-3"}, status={"phase": phase}, **metadata)


CLAIM = {"claimStatus": "Claimed", "claimedBy": "node/node-3", "sla": AT, "nodeUID": "u", "driver": "d"}


@pytest.mark.parametrize(
    ("table", "before", "after", "text"),
    [
        (EVENTS, None, event(), "creates event e-1 (reboot of node-3)"),
        (EVENTS, event(), event(CLAIM), "event e-1 (reboot of node-3): claimStatus Pending -> Claimed, sla 90 s"),
        (
            EVENTS,
            event(CLAIM),
            event({**CLAIM, "sla": "2026-01-01T00:02:00Z"}),
            "event e-1 (reboot of node-3): sla 90 s -> 120 s",
        ),
        (EVENTS, event(), event(finalizers=["f/x"]), "event e-1 (reboot of node-3): adds finalizer f/x"),
        (EVENTS, event(finalizers=["f/x"]), event(), "event e-1 (reboot of node-3): removes finalizer f/x"),
        (EVENTS, event(CLAIM), None, "event e-1 (reboot of node-3) is deleted (was Claimed, at once)"),
        (NODES, node(), node(T="Rebooting"), "node node-3: condition T True (Rebooting)"),
        (
            NODES,
            node(T="Rebooting"),
            node(T="Rebooted"),
            "node node-3: condition T True (Rebooting) -> True (Rebooted)",
        ),
        (
            NODES,
            item("node-3"),
            item("node-3", spec={"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True}),
            "node node-3: taint k NoSchedule, unschedulable True",
        ),
        (PODS, pod("Pending"), pod("Running"), "pod web-1 on node-3: phase Pending -> Running"),
        (
            PODS,
            pod("Running"),
            pod("Running", deletionTimestamp=AT, deletionGracePeriodSeconds=6),
            "pod web-1 on node-3: deletionTimestamp 90 s, deletionGracePeriodSeconds 6",
        ),
        (PODS, pod("Failed", deletionTimestamp=AT), None, "pod web-1 on node-3 is deleted (was Failed)"),
        (LEASES, None, lease("a_1"), "creates lease kube-system/boss, held by a_1"),
        (
            LEASES,
            lease("a_1"),
            lease("b_1"),
            "lease kube-system/boss: a_1 -> b_1 (renewed at 90 s, for 30 s, by the clock of a_1)",
        ),
        (LEASES, lease(""), lease("b_1"), "lease kube-system/boss: no holder -> b_1"),
        (THINGS, item("t-1", finalizers=["f"]), None, "thing t-1 is deleted (held by finalizer f, at once)"),
        (THINGS, item("t-1"), item("t-1", resourceVersion="7"), "thing t-1: is written without a change"),
    ],
)
def test_descriptions(table: str, before: Json | None, after: Json | None, text: str) -> None:
    some = after or before or {}
    key = f"kube-system/{some['metadata']['name']}" if table == LEASES else some["metadata"]["name"]
    assert describe(Commit(7, table, key, before, after, 1.0)).text == text


def test_names_of_a_change() -> None:
    said = describe(Commit(7, EVENTS, "e-1", None, event(), 1.0))
    assert (said.about, sorted(said.names)) == ("e-1", ["e-1", "node-3"])
    said = describe(Commit(7, LEASES, "kube-system/boss", lease("a_1"), lease("b_1"), 1.0))
    assert (said.about, sorted(said.names), said.is_minor) == ("boss", ["a_1", "b_1", "boss"], False)


def test_renewals_are_minor() -> None:
    renewed = Commit(7, LEASES, "kube-system/boss", lease("a_1"), lease("a_1", "2026-01-01T00:01:35Z"), 1.0)
    assert describe(renewed).is_minor
    progress = Commit(7, EVENTS, "e-1", event(), event({"progress": {"done": 1}}), 1.0)
    assert describe(progress).is_minor
    assert not describe(Commit(7, EVENTS, "e-1", event(), event(CLAIM), 1.0)).is_minor
