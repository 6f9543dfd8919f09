from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.schema.embedded_resources import coerce_embedded, validate_embedded
from kube_fairlead_apiserver.schema.model import compile_schema

NODE = compile_schema(
    {
        "type": "object",
        "properties": {
            "e": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "l": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True}},
        },
    }
)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"name": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ({"labels": {"a": 1}}, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        (
            {"finalizers": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string",
        ),
        (
            {"ownerReferences": [{"name": True}]},
            "json: cannot unmarshal bool into Go struct field OwnerReference.ownerReferences.name of type string",
        ),
        (
            {"ownerReferences": ["x"]},
            "json: cannot unmarshal string into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference",
        ),
        (
            {"generation": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
        ),
        (
            {"deletionTimestamp": "x"},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
    ],
)
def test_metadata_that_go_cannot_read_is_refused(metadata: Any, error: str) -> None:
    value = {"l": [{"apiVersion": "v1", "kind": "K", "metadata": metadata}]}
    found, _ = coerce_embedded(NODE, value)
    assert found is not None
    assert found.field == "l[0].metadata"
    assert found.detail == error
    assert [problem.detail for problem in validate_embedded(NODE, value)] == [error]


def test_unknown_and_empty_metadata_fields_go() -> None:
    value = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n", "foo": 1, "labels": {"a": None}, "creationTimestamp": None},
        "e": {
            "metadata": {
                "deletionGracePeriodSeconds": 0,
                "annotations": {},
                "ownerReferences": [{"uid": "u", "x": 1}],
                "managedFields": [{"fieldsV1": {"f:a": {}}, "z": 1}],
            }
        },
    }
    assert coerce_embedded(NODE, value) == (
        None,
        ["e.metadata.managedFields[0].z", "e.metadata.ownerReferences[0].x", "metadata.foo"],
    )
    assert value["metadata"] == {"name": "n", "labels": {"a": ""}}
    assert value["e"] == {
        "metadata": {
            "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "u"}],
            "managedFields": [{"fieldsV1": {"f:a": {}}}],
        }
    }


def test_the_root_is_left_alone_unless_asked_for() -> None:
    value = {"apiVersion": 1, "metadata": {"foo": 1}}
    assert coerce_embedded(NODE, value, root=False) == (None, [])
    found, _ = coerce_embedded(NODE, value)
    assert str(found) == "apiVersion: Invalid value: 1: must be a string"
    assert [str(error) for error in validate_embedded(NODE, value, root=True)] == [
        "kind: Required value",
        "apiVersion: Invalid value: 1: must be a string",
    ]


@pytest.mark.parametrize(
    ("resource", "errors"),
    [
        ({}, ["e.apiVersion: Required value", "e.kind: Required value"]),
        (
            {"apiVersion": "a/b/c", "kind": ""},
            [
                'e.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                'e.kind: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a/b", "generateName": "%", "generation": -1}},
            [
                "e.metadata.generateName: Invalid value: \"%\": may not contain '%'",
                "e.metadata.name: Invalid value: \"a/b\": may not contain '/'",
                "e.metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"apiVersion": "v1", "kind": "K", "metadata": {"finalizers": ["orphan", "foregroundDeletion"]}},
            [
                (
                    'e.metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                    "finalizer orphan and foregroundDeletion cannot be both set"
                )
            ],
        ),
        (
            {"apiVersion": "v1", "kind": "K", "metadata": {"annotations": {"a": "x" * 300_000}}},
            ["e.metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
    ],
)
def test_an_embedded_resource_is_checked_like_a_resource(resource: Any, errors: list[str]) -> None:
    assert [str(error) for error in validate_embedded(NODE, {"e": resource})] == errors


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"labels": {"a b": "c d"}}, ["labels", "labels"]),
        ({"annotations": {"A B": "1"}}, ["annotations"]),
        ({"namespace": "X"}, ["namespace"]),
        ({"finalizers": ["x y"]}, ["finalizers"]),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"}]}, ["ownerReferences"]),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n", "uid": "u", "controller": True}] * 2},
            ["ownerReferences"],
        ),
        (
            {"managedFields": [{"operation": "X", "fieldsType": "Y", "manager": "m" * 129, "subresource": "s" * 257}]},
            [f"managedFields[0].{name}" for name in ("operation", "fieldsType", "manager", "subresource")],
        ),
    ],
)
def test_metadata_keeps_its_rules_inside(metadata: Any, fields: list[str]) -> None:
    errors = validate_embedded(NODE, {"e": {"apiVersion": "v1", "kind": "K", "metadata": metadata}})
    assert [error.field for error in errors] == [f"e.metadata.{field}" for field in fields]
