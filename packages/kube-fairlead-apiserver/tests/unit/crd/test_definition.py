from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead_apiserver.crd import definition
from kube_fairlead_apiserver.crd.definition import compile_kinds, version_order

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "colour": {"type": "string", "default": "red"},
                "limit": {"type": "integer"},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.limit) || self.size <= self.limit", "message": "too big"}],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def _crd(**version: Any) -> dict[str, Any]:
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}, **version}
    crd: dict[str, Any] = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [first],
        },
    }
    definition.set_defaults(crd)
    return crd


def _object(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": spec}


def test_what_a_client_leaves_out_is_filled_in() -> None:
    crd = _crd()
    assert crd["spec"]["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert "status" not in crd
    service: dict[str, Any] = {"name": "n", "namespace": "ns"}
    crd = {
        "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}}},
        "status": {},
    }
    definition.set_defaults(crd)
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == {**service, "port": 443}
    assert crd["status"] == {"storedVersions": []}
    assert crd["spec"]["names"] == {"singular": ""}


def test_storage_versions_are_remembered() -> None:
    crd = {**_crd(), "status": {"storedVersions": ["mine"]}}
    definition.prepare_for_create(crd)
    assert crd["status"] == {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": [],
        "storedVersions": ["v1"],
    }
    newer = _crd(name="v2")
    definition.prepare_for_update(newer, crd)
    assert newer["status"]["storedVersions"] == ["v1", "v2"]
    assert crd["status"]["storedVersions"] == ["v1"]
    definition.prepare_for_update(newer, newer)
    assert newer["status"]["storedVersions"] == ["v1", "v2"]


def test_a_version_compiles_to_all_that_serving_needs() -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.sel"}
    crd = _crd(
        subresources={"status": {}, "scale": scale},
        selectableFields=[{"jsonPath": ".spec.colour"}],
        additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    )
    crd["spec"]["names"]["shortNames"] = ["fo"]
    kind = compile_kinds(crd)["v1"]
    assert kind.api_version == "example.com/v1"
    assert (kind.plural, kind.singular, kind.kind, kind.list_kind) == ("foos", "foo", "Foo", "FooList")
    assert (kind.short_names, kind.categories) == (("fo",), ())
    assert (kind.namespaced, kind.served, kind.storage, kind.has_status) == (True, True, True, True)
    assert kind.scale == definition.ScalePaths(("spec", "size"), ("status", "size"), ("status", "sel"))
    assert kind.selectable_fields == {"spec.colour": ("spec", "colour")}
    assert kind.columns.cells(_object(size=3), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)) == ["x", 3]
    assert kind.warning == ""


def test_accepted_names_are_served_rather_than_wanted_ones() -> None:
    crd = _crd()
    crd["status"] = {"acceptedNames": {"plural": "foos", "kind": "Old", "listKind": "OldList"}}
    assert compile_kinds(crd)["v1"].kind == "Old"


def test_an_object_is_brought_into_shape() -> None:
    kind = compile_kinds(_crd())["v1"]
    obj = _object(size=1, what=2, limit=None)
    obj["metadata"] = {"name": "x", "foo": 1}
    obj["status"] = {"any": {"thing": 1}}
    assert kind.decode(obj) == (None, ["metadata.foo", "spec.what"])
    assert obj == {**_object(size=1, colour="red"), "status": {"any": {"thing": 1}}}
    error, _ = kind.decode({"metadata": {"name": 5}})
    assert str(error) == (
        'metadata: Invalid value: {"name":5}: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
    )


def test_an_object_is_validated_by_schema_and_rules() -> None:
    kind = compile_kinds(_crd())["v1"]
    assert kind.validate(_object(size=1)) == []
    assert [str(error) for error in kind.validate(_object(size=3, limit=2))] == ["spec: Invalid value: too big"]
    assert [str(error) for error in kind.validate(_object(limit=2))] == [
        "spec.size: Required value",
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        ),
    ]
    broken = _object(size=3, limit=2)
    warnings: list[str] = []
    assert kind.validate({**broken, "status": {}}, broken, warnings=warnings) == []
    assert warnings == ["spec: Invalid value: too big"]


def test_a_status_update_is_judged_by_the_status_and_every_rule() -> None:
    status = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "status": status}}
    kind = compile_kinds(_crd(schema={"openAPIV3Schema": schema}, subresources={"status": {}}))["v1"]
    old = {**_object(size=3, limit=2), "status": {"n": "old"}}
    assert kind.validate_status({**old, "metadata": {}}, old) == []
    assert [str(error) for error in kind.validate_status({**old, "status": {"n": "new"}}, old)] == [
        'status.n: Invalid value: "string": n in body must be of type integer: "string"',
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        ),
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (3, None),
        (-1, "should be a non-negative integer"),
        (2**31, "should be less than or equal to 2147483647"),
        ("x", ".status.size accessor error: x is of the type string, expected int64"),
    ],
)
def test_replicas_must_be_counts(value: Any, problem: str | None) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    kind = compile_kinds(_crd(subresources={"scale": scale}))["v1"]
    errors = kind.validate({**_object(size=1), "status": {"size": value}})
    assert [(error.field, error.detail) for error in errors] == ([] if problem is None else [(".status.size", problem)])


def test_a_deprecated_version_says_what_to_use() -> None:
    crd = _crd(name="v1beta1", deprecated=True)
    versions = crd["spec"]["versions"]
    assert compile_kinds(crd)["v1beta1"].warning == "example.com/v1beta1 Foo is deprecated"
    for name in ("v1alpha1", "v1", "v2", "v3"):
        versions.append({**versions[0], "name": name, "deprecated": name == "v3"})
    assert compile_kinds(crd)["v1beta1"].warning == "example.com/v1beta1 Foo is deprecated; use example.com/v2 Foo"
    versions[0]["deprecationWarning"] = "own words"
    assert compile_kinds(crd)["v1beta1"].warning == "own words"


def test_versions_sort_by_stability_then_number() -> None:
    names = ["foo1", "v1", "v10", "v2", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo10"]
    assert sorted(names, key=version_order, reverse=True) == [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
    ]
