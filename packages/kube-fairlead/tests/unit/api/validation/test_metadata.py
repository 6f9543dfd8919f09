from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import names
from kube_fairlead.api.validation import metadata

GOOD: dict[str, Any] = {
    "name": "a",
    "namespace": "default",
    "resourceVersion": "1",
    "labels": {"x.io/a": "b", "c": ""},
    "annotations": {"X.io/A": "any thing"},
    "finalizers": ["lifecycle.k8s.io/claimed"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    "managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}],
}


def problems(change: dict[str, Any], *, namespaced: bool = True) -> list[str]:
    tree = {key: value for key, value in (GOOD | change).items() if value is not None}
    rule = names.name_is_dns_subdomain
    return [str(e) for e in metadata.validate_object_meta(tree, namespaced=namespaced, name_rule=rule)]


def test_good_metadata() -> None:
    assert problems({}) == []
    assert problems({"generateName": "a-"}) == []
    assert problems({"namespace": None}, namespaced=False) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "metadata.name: Required value: name or generateName is required"),
        ({"namespace": None}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"labels": {"a": "b" * 64}},
            f'metadata.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes',
        ),
        ({"annotations": {"a": "b" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            (
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            ),
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
            'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        ),
        (
            {"ownerReferences": [{"apiVersion": "", "kind": "Pod", "name": "p", "uid": "u"}]},
            'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]},
            (
                'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ),
        ),
        (
            {"managedFields": [{"operation": "Patch"}]},
            'metadata.managedFields[0].operation: Invalid value: "Patch": must be `Apply` or `Update`',
        ),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "V2"}]},
            'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
        ),
        (
            {"managedFields": [{"operation": "Apply", "manager": "\u00e9\n"}]},
            'metadata.managedFields[0].manager: Invalid value: "\u00e9\\n": invalid character U+000A (at position 2)',
        ),
        (
            {"managedFields": [{"operation": "Apply", "manager": "x" * 129}]},
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
        ),
        (
            {"managedFields": [{"operation": "Apply", "subresource": "x" * 257}]},
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ),
    ],
)
def test_bad_metadata(change: dict[str, Any], message: str) -> None:
    assert problems(change) == [message]


def test_names_keys_and_scope() -> None:
    assert problems({"name": "A"})[0].startswith('metadata.name: Invalid value: "A": a lowercase RFC 1123')
    assert problems({"generateName": "A.B-"})[0].startswith("metadata.generateName: Invalid value")
    assert problems({"labels": {"a b": ""}})[0].startswith('metadata.labels: Invalid value: "a b": name part')
    assert problems({"annotations": {"a b": ""}})[0].startswith("metadata.annotations: Invalid value")
    assert problems({"finalizers": ["a b"]})[0].startswith("metadata.finalizers: Invalid value")
    assert problems({}, namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_two_controllers() -> None:
    two = [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"]
    (message,) = problems({"ownerReferences": two})
    assert message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ({}, {}, []),
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["lifecycle.k8s.io/claimed", "b", "a"]},
            [
                (
                    "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
                    'found new finalizers []string{"a", "b"}'
                )
            ],
        ),
        (
            {},
            {"resourceVersion": ""},
            ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
        ),
        (
            {"generation": 2},
            {"generation": 1},
            ["metadata.generation: Invalid value: 1: must not be decremented"],
        ),
        ({}, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({"uid": "u"}, {}, ['metadata.uid: Invalid value: "": field is immutable']),
        (
            {},
            {"deletionGracePeriodSeconds": 5},
            ["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"],
        ),
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            {},
            ["metadata.deletionTimestamp: Invalid value: null: field is immutable"],
        ),
    ],
)
def test_updates(old: dict[str, Any], new: dict[str, Any], messages: list[str]) -> None:
    errors = metadata.validate_object_meta_update(GOOD | new, GOOD | old)
    assert [str(error) for error in errors] == messages
