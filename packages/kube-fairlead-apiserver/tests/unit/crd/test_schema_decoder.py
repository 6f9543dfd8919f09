from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.crd import definition, validation
from kube_fairlead_apiserver.crd.schema_decoder import read_schema


def test_nulls_say_nothing_except_in_values() -> None:
    raw = {
        "type": None,
        "properties": {"a": None, "b": {"default": {"x": None}, "enum": [None, 1], "items": None}},
        "required": ["a"],
        "additionalProperties": None,
        "x-kubernetes-validations": [{"rule": "true", "message": None}],
    }
    assert read_schema(raw, FieldPath()) == (
        {
            "properties": {"a": {}, "b": {"default": {"x": None}, "enum": [None, 1]}},
            "required": ["a"],
            "x-kubernetes-validations": [{"rule": "true"}],
        },
        [],
    )


def test_wrong_types_are_named() -> None:
    raw = {
        "type": 5,
        "properties": {"a": "x", "b": {"maxLength": True, "nullable": "no"}},
        "items": [1],
        "additionalProperties": "x",
        "required": "a",
        "enum": {},
        "maximum": 1.5,
        "dependencies": {"a": ["b"], "c": 1},
        "x-kubernetes-validations": [{"rule": 1, "optionalOldSelf": "x"}, "y"],
    }
    _, errors = read_schema(raw, FieldPath("s"))
    assert [str(error) for error in errors] == [
        's.type: Invalid value: "integer": must be of type string',
        's.properties[a]: Invalid value: "string": must be of type object',
        's.properties[b].maxLength: Invalid value: "boolean": must be of type integer',
        's.properties[b].nullable: Invalid value: "string": must be of type boolean',
        's.items[0]: Invalid value: "integer": must be of type object',
        's.additionalProperties: Invalid value: "string": must be of type object',
        's.required: Invalid value: "string": must be of type array',
        's.enum: Invalid value: "object": must be of type array',
        's.dependencies[c]: Invalid value: "integer": must be of type object',
        's.x-kubernetes-validations[0].rule: Invalid value: "integer": must be of type string',
        's.x-kubernetes-validations[0].optionalOldSelf: Invalid value: "string": must be of type boolean',
        's.x-kubernetes-validations[1]: Invalid value: "string": must be of type object',
    ]


_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "object", "array", "self", "map", "("]),
    lambda children: (
        st.lists(children, max_size=2) | st.dictionaries(st.sampled_from(["a", "type", "items"]), children, max_size=2)
    ),
    max_leaves=4,
)
_keys = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "default",
        "enum",
        "allOf",
        "not",
        "pattern",
        "nullable",
        "format",
        "minimum",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-validations",
        "x-kubernetes-preserve-unknown-fields",
    ]
)


@given(st.dictionaries(_keys, _anything, max_size=5), st.dictionaries(_keys, _anything, max_size=3))
def test_no_schema_breaks_the_server(root: dict[str, Any], inner: dict[str, Any]) -> None:
    schema = {"type": "object", **root}
    if isinstance(schema.get("properties", {}), dict):
        schema["properties"] = {**(schema.get("properties") or {}), "inner": inner}
    crd: dict[str, Any] = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": None},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
        "status": {"storedVersions": ["v1"]},
    }
    definition.set_defaults(crd)
    old = copy.deepcopy(crd)
    validation.unrecognized_formats(crd) if not validation.validate_create(crd) else None
    if not validation.validate_update(crd, old):
        definition.compile_kinds(crd)["v1"].validate({"apiVersion": "example.com/v1", "kind": "Foo", "inner": {}})
