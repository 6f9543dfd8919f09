"""Invalid transitions and events are refused with field errors, on both control planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.site import EVENTS, LIFECYCLE

Json = dict[str, Any]
TRANSITIONS = f"{LIFECYCLE}/lifecycletransitions"
GOOD: Json = {"start": "A", "end": "B", "driver": "example.com/any", "allNodes": True}


def transition(name: str, **spec: Any) -> Json:
    fields = {key: value for key, value in (GOOD | spec).items() if value is not None}
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": name},
        "spec": fields,
    }


def event(name: str, **spec: str) -> Json:
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": name},
        "spec": {"transitionName": "any", "bindingNode": "nowhere"} | spec,
    }


def fields_of(status: Json) -> set[str]:
    return {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("", {"allNodes": None}, "spec"),
        ("", {"nodeName": "n"}, "spec"),
        ("", {"nodeName": "n", "nodeSelector": {"nodeSelectorTerms": [{}]}, "allNodes": None}, "spec"),
        ("", {"allNodes": False}, "spec.allNodes"),
        ("", {"sla": "soon"}, "spec.sla"),
        ("", {"sla": "-1s"}, "spec.sla"),
        ("", {"sla": "0s"}, "spec.sla"),
        ("", {"sla": "9999999h"}, "spec.sla"),
        ("", {"start": None}, "spec.start"),
        ("", {"driver": None}, "spec.driver"),
        ("", {"driver": "a/b/c"}, "spec.driver"),
        # Reserved transitions and states that are misused.
        ("node-shutdown", {}, "spec"),
        ("", {"start": "shutdown-drain-started"}, "spec"),
        ("", {"driver": "fairlead.dev/shutdown"}, "spec"),
        ("node-drain", {}, "spec"),
        ("node-uncordon", {"start": "Uncordoning"}, "spec"),
        ("", {"start": "DrainComplete"}, "spec.start"),
        ("", {"end": "DrainStarted"}, "spec.end"),
        ("", {"end": "Uncordoning"}, "spec.end"),
    ],
)
async def test_bad_transitions(
    admin: RawApi, unique_name: Callable[[str], str], name: str, spec: Json, field: str
) -> None:
    status = (await admin.post(TRANSITIONS, transition(name or unique_name("t"), **spec))).expect(422)
    assert field in fields_of(status)


async def test_maintenance_states_go_in_any_order(admin: RawApi, unique_name: Callable[[str], str]) -> None:
    states = ("MaintenancePlanned", "MaintenanceInProgress", "MaintenanceComplete")
    for start in states:
        for end in states:
            body = transition(unique_name("t"), start=start, end=end)
            (await admin.post(TRANSITIONS, body, dryRun="All")).expect(201)


async def test_specs_never_change(admin: RawApi, unique_name: Callable[[str], str]) -> None:
    for path, body, changed in (
        (TRANSITIONS, transition(unique_name("t")), {"end": "C"}),
        (EVENTS, event(unique_name("e")), {"bindingNode": "elsewhere"}),
    ):
        made = (await admin.post(path, body)).expect(201)
        item = f"{path}/{made['metadata']['name']}"
        refused = (await admin.patch(item, {"spec": changed})).expect(422)
        assert "immutable" in refused["message"]
        (await admin.patch(item, {"metadata": {"labels": {"a": "b"}}})).expect(200)
        (await admin.delete(item)).expect(200)


@pytest.mark.parametrize("spec", [{"bindingNode": ""}, {"bindingNode": "Node01"}, {"transitionName": "nodeDrain"}])
async def test_bad_events(admin: RawApi, unique_name: Callable[[str], str], spec: dict[str, str]) -> None:
    status = (await admin.post(EVENTS, event(unique_name("e"), **spec))).expect(422)
    assert f"spec.{next(iter(spec))}" in fields_of(status)


LEGAL = {
    ("Pending", "Claimed"),
    ("Pending", "Failed"),
    ("Claimed", "Succeeded"),
    ("Claimed", "Failed"),
    ("Claimed", "SlaExpired"),
}
STATES = ("Pending", "Claimed", "Succeeded", "Failed", "SlaExpired")
WAYS = {"Pending": [], "Claimed": ["Claimed"], "Failed": ["Failed"]} | {
    state: ["Claimed", state] for state in ("Succeeded", "SlaExpired")
}


@pytest.mark.parametrize("source", STATES)
async def test_status_moves(admin: RawApi, unique_name: Callable[[str], str], source: str) -> None:
    """Every move from one state: what the table forbids is refused, terminal to anything above all."""
    path = f"{EVENTS}/{unique_name('e')}"
    (await admin.post(EVENTS, event(path.rpartition("/")[2]))).expect(201)
    for state in WAYS[source]:
        (await admin.patch(f"{path}/status", {"status": {"claimStatus": state}})).expect(200)
    for target in STATES:
        answer = await admin.patch(f"{path}/status", {"status": {"claimStatus": target}}, dryRun="All")
        if source == target or (source, target) in LEGAL:
            answer.expect(200)
        else:
            assert fields_of(answer.expect(422)) == {"status.claimStatus"}, target
    # Nor by way of the object itself, where the status is not written at all.
    (await admin.patch(path, {"status": {"claimStatus": "Claimed"}})).expect(200)
    stored = (await admin.get(path)).expect(200).get("status", {}).get("claimStatus", "Pending")
    assert stored == source
    (await admin.delete(path)).expect(200)


async def test_what_is_claimed_stays_as_it_was_claimed(admin: RawApi, unique_name: Callable[[str], str]) -> None:
    path = f"{EVENTS}/{unique_name('e')}"
    (await admin.post(EVENTS, event(path.rpartition("/")[2]))).expect(201)
    claim = {"claimStatus": "Claimed", "claimedBy": "node/a", "driver": "x/y", "sla": "2026-01-01T00:00:00Z"}
    (await admin.patch(f"{path}/status", {"status": claim})).expect(200)
    for field, value in (("claimedBy", "node/b"), ("driver", None), ("sla", "2027-01-01T00:00:00Z")):
        refused = (await admin.patch(f"{path}/status", {"status": {field: value}})).expect(422)
        assert fields_of(refused) == {f"status.{field}"}
    (await admin.delete(path)).expect(200)
