from __future__ import annotations

import copy
import pathlib
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from kube_fairlead.api import apiextensions_v1, crdrules, crds, recordrules, reserved, wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition, NodeLifecycleRecord
from kube_fairlead.api.validation import lifecycle
from kube_fairlead_lab.testing import import_real
from tests.unit.api import spec_validation

cel = import_real("cel_expr_python.cel", remedy="its wheels are for Linux only")

DEPLOY = pathlib.Path(__file__).parents[5] / "deploy" / "crds"
SHORT_NAMES: dict[type[Any], str] = {LifecycleTransition: "lt", LifecycleEvent: "le", NodeLifecycleRecord: "nlr"}
GROUPS = (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE)


@pytest.mark.parametrize("group", GROUPS)
def test_the_committed_manifests_are_current(group: str) -> None:
    expected = crds.manifests(group)
    committed = {f"{group}/{path.name}": path.read_text(encoding="utf-8") for path in (DEPLOY / group).iterdir()}
    assert committed == expected, "run hack/crds/generate.py"


def test_there_are_no_other_manifests() -> None:
    assert {path.name for path in DEPLOY.iterdir()} == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", SHORT_NAMES)
def test_the_definition(group: str, kind: type[Any]) -> None:
    tree = crds.crd(kind, group)
    definition = wire.from_dict(apiextensions_v1.CustomResourceDefinition, tree)
    assert definition.name == f"{kind.__name__.lower()}s.{group}"
    approval = definition.metadata.annotations.get("api-approved.kubernetes.io")
    assert approval == ("unapproved, experimental-only" if group.endswith(".k8s.io") else None)
    assert definition.spec.scope == "Cluster"
    assert definition.spec.names.short_names == (SHORT_NAMES[kind],)
    (version,) = definition.spec.versions
    assert (version.name, version.served, version.storage) == ("v1alpha1", True, True)
    if kind is LifecycleEvent:
        assert version.subresources is not None
        assert version.subresources.status == {}
        assert [field.json_path for field in version.selectable_fields] == [".spec.bindingNode"]
    else:
        assert version.subresources is None
    assert tree in crds.crds(group)


def _paths(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    yield path
    for name, inner in schema.get("properties", {}).items():
        if path or name not in {"apiVersion", "kind", "metadata"}:
            yield from _paths(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from _paths(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from _paths(schema["additionalProperties"], f"{path}{{}}")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (LifecycleTransition, crdrules.TRANSITION_FIELDS),
        (LifecycleEvent, crdrules.EVENT_FIELDS),
        (NodeLifecycleRecord, recordrules.RECORD_FIELDS),
    ],
)
def test_every_field_is_described_and_no_description_is_left_over(kind: type[Any], fields: dict[str, Any]) -> None:
    assert set(_paths(crds.openapi_schema(kind))) == set(fields)


ENV = cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})


def _rules_hold(schema: dict[str, Any], new: Any, old: Any) -> bool:
    """Evaluate every rule of the schema, as an API server does: one that names oldSelf only if there is one."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and old is None:
            continue
        verdict = ENV.compile(rule["rule"]).eval(data={"self": new, "oldSelf": old})
        if verdict.value() is not True:
            return False
    if isinstance(new, dict):
        return all(
            _rules_hold(inner, new[name], old.get(name) if isinstance(old, dict) else None)
            for name, inner in schema.get("properties", {}).items()
            if name in new
        )
    # Lists here are atomic, so their items have no old counterpart.
    return not isinstance(new, list) or all(_rules_hold(schema["items"], item, None) for item in new)


def _crd_accepts(kind: type[Any], new: dict[str, Any], old: dict[str, Any] | None = None) -> bool:
    schema = crds.openapi_schema(kind)
    # The oracle's own idea of int64 and date-time is not what is tested here.
    return jsonschema_rs.is_valid(schema, new) and _rules_hold(schema, new, old)


SPEC: dict[str, Any] = {
    "start": "DrainStarted",
    "end": "DrainComplete",
    "driver": "example.com/drain",
    "allNodes": True,
}
SHUTDOWN: dict[str, Any] = {
    "start": "shutdown-drain-started",
    "end": "shutdown-drain-complete",
    "driver": "fairlead.dev/shutdown",
    "allNodes": True,
}


def _selecting(**term: Any) -> dict[str, Any]:
    return {**SPEC, "allNodes": None, "nodeSelector": {"nodeSelectorTerms": [term]}}


def _by_label(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return _selecting(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


def _by_field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return _selecting(matchFields=[{"key": key, "operator": operator, "values": list(values)}])


DRIVERS = ("", "a", "a b", "a/b/c", "X.com/a", "x.com/A_b", "fairlead.dev/shutdown")
SLAS = ("1h", "+1h", "0s", "-1h", "1", "1d", "", "1.5h30m", "1ns", ".5s", "h")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
TRANSITIONS: list[tuple[str, dict[str, Any]]] = [
    ("drain", SPEC),
    *(("drain", SPEC | {field: None}) for field in SPEC),
    *(("drain", SPEC | {"start": state}) for state in ("", "x" * 128, "x" * 129, "shutdown-drain-started")),
    *(("drain", SPEC | {"end": state}) for state in ("", "shutdown-drain-complete", "shutdown-drain-started")),
    *(
        ("drain", SPEC | {"driver": name})
        for name in ("", "a", "a b", "a/b/c", "X.com/a", "x.com/A_b", "fairlead.dev/shutdown")
    ),
    *(
        ("drain", SPEC | {"sla": sla})
        for sla in ("1h", "+1h", "0s", "-1h", "1", "1d", "", "1.5h30m", "1ns", ".5s", "h")
    ),
    *(("drain", SPEC | {"allNodes": None, "nodeName": name}) for name in ("n", "", "Node01", "a.b", "n" * 254)),
    ("drain", SPEC | {"nodeName": "n"}),
    ("drain", SPEC | {"allNodes": False}),
    ("drain", SPEC | {"allNodes": False, "nodeName": "n"}),
    ("drain", {**SPEC, "allNodes": None, "nodeSelector": {"nodeSelectorTerms": []}}),
    ("drain", {**SPEC, "allNodes": None, "nodeSelector": {}}),
    ("drain", _selecting()),
    *(
        ("drain", _by_label(operator, "a"))
        for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", "")
    ),
    *(("drain", _by_label(operator)) for operator in OPERATORS),
    ("drain", _by_label("Gt", "1", "2")),
    ("drain", _by_label("In", "-")),
    ("drain", _by_label("In", "a", key="a b")),
    ("drain", _by_label("In", *["a"] * 65)),
    *(("drain", _by_field(operator, "n")) for operator in ("In", "NotIn", "Exists", "Gt")),
    ("drain", _by_field("In")),
    ("drain", _by_field("In", "a", "b")),
    ("drain", _by_field("In", "N")),
    ("drain", _by_field("In", "n", key="spec.x")),
    ("node-shutdown", SHUTDOWN),
    ("node-shutdown", SPEC),
    ("node-shutdown", SHUTDOWN | {"driver": "x"}),
    ("mine", SHUTDOWN),
    ("node-drain", SPEC | {"driver": "fairlead.dev/drain"}),
    *(("node-drain", SPEC | {field: "Other"}) for field in ("start", "end", "driver")),
    ("node-uncordon", SPEC),
    ("node-uncordon", SPEC | {"start": "Uncordoning", "end": "MaintenanceComplete"}),
    *(("mine", SPEC | {"start": state}) for state in ("DrainComplete", "Uncordoning", "MaintenanceComplete", "Other")),
    *(("mine", SPEC | {"end": state}) for state in ("DrainStarted", "Uncordoning", "MaintenancePlanned", "Other")),
]


def _without_nulls(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if value is not None}


def _transition(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": _without_nulls(spec)}


@pytest.mark.parametrize(("name", "spec"), TRANSITIONS)
def test_crd_and_validation_agree_on_transitions(name: str, spec: dict[str, Any]) -> None:
    tree = _transition(name, spec)
    errors = spec_validation.validate_transition(wire.from_dict(LifecycleTransition, tree))
    assert _crd_accepts(LifecycleTransition, tree) is (not errors), errors


@pytest.mark.parametrize(("name", "spec"), [case for case in TRANSITIONS if case[0] == "drain"])
def test_crd_and_validation_agree_on_changed_transitions(name: str, spec: dict[str, Any]) -> None:
    old, new = _transition(name, SPEC), _transition(name, spec)
    kind = LifecycleTransition
    errors = spec_validation.validate_transition_update(wire.from_dict(kind, new), wire.from_dict(kind, old))
    assert _crd_accepts(kind, new, old) is (not errors), errors


EVENT: dict[str, Any] = {"metadata": {"name": "e"}, "spec": {"transitionName": "drain", "bindingNode": "node-1"}}
STATUSES: list[dict[str, Any] | None] = [
    None,
    {},
    *({"claimStatus": status} for status in ("", *map(str, ClaimStatus), "Done")),
    {"claimStatus": "Claimed", "claimedBy": "node/a", "driver": "a/b", "sla": "2026-01-01T00:00:00Z"},
    {"claimStatus": "Claimed", "claimedBy": "node/b", "driver": "a/b", "sla": "2026-01-01T00:00:00Z"},
    {"claimStatus": "Failed", "claimedBy": "node/a", "driver": "a/b", "sla": "2026-01-01T00:00:00Z"},
    {"claimStatus": "Claimed", "transition": {"uid": "u", "start": "a", "end": "b"}, "message": "m"},
    {"claimStatus": "Claimed", "transition": {"uid": "u", "start": "a", "end": "c"}, "message": "n"},
    {"claimStatus": "Claimed", "progress": {"done": 1, "total": 2, "unit": "pods"}},
    {"claimStatus": "Claimed", "progress": {"done": -1, "total": 2}},
]


def _event(status: dict[str, Any] | None) -> dict[str, Any]:
    return copy.deepcopy(EVENT | ({} if status is None else {"status": status}))


@pytest.mark.parametrize("new_status", STATUSES)
@pytest.mark.parametrize("old_status", [status for status in STATUSES if status != {"claimStatus": "Done"}])
def test_crd_and_validation_agree_on_status_updates(
    old_status: dict[str, Any] | None, new_status: dict[str, Any] | None
) -> None:
    old, new = _event(old_status), _event(new_status)
    kind = LifecycleEvent
    errors = lifecycle.validate_event_status_update(wire.from_dict(kind, new), wire.from_dict(kind, old))
    assert _crd_accepts(kind, new, old) is (not errors), errors


@pytest.mark.parametrize(
    "spec",
    [
        {"transitionName": "drain", "bindingNode": "node-2"},
        {"transitionName": "drain"},
        {"bindingNode": "node-1"},
        {"transitionName": "nodeDrain", "bindingNode": "node-1"},
        {"transitionName": "drain", "bindingNode": "Node01"},
        {"transitionName": "", "bindingNode": ""},
    ],
)
def test_crd_and_validation_agree_on_events(spec: dict[str, Any]) -> None:
    tree = EVENT | {"spec": spec}
    kind = LifecycleEvent
    errors = spec_validation.validate_event(wire.from_dict(kind, tree))
    assert _crd_accepts(kind, tree) is (not errors), errors
    assert not _crd_accepts(kind, tree, EVENT)
    assert spec_validation.validate_event_update(wire.from_dict(kind, tree), wire.from_dict(kind, EVENT)) != []


def test_the_schema_names_every_field_that_is_sent() -> None:
    """A full object, written and read again, loses nothing to pruning."""
    schema = crds.openapi_schema(LifecycleEvent)
    known = set(schema["properties"]["status"]["properties"])
    assert known == {field.encode_name for field in msgspec.structs.fields(type(LifecycleEvent().status))}
