from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.patch.apply.extraction import applied_fields, every_field, name_structs, reconciled
from kube_fairlead_apiserver.patch.apply.relations import rooted
from kube_fairlead_apiserver.schema.model import ANYTHING, compile_schema

STRING = {"type": "string"}
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["protocol", "port"],
    "items": {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": STRING},
    },
}
NODE = compile_schema(
    {
        "type": "object",
        "properties": {
            "text": STRING,
            "map": {"type": "object", "additionalProperties": STRING},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING},
            "list": {"type": "array", "items": STRING},
            "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            "ports": PORTS,
            "byStrategy": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": STRING}},
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            "struct": {
                "type": "object",
                "properties": {"a": STRING, "inner": {"type": "object", "default": {}, "properties": {"b": STRING}}},
            },
        },
    }
)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"text": "x"}, {"f:text": {}}),
        ({"text": None, "map": {}}, {"f:text": {}, "f:map": {}}),
        ({"map": {"a": "1"}}, {"f:map": {"f:a": {}}}),
        ({"whole": {"a": "1"}, "list": ["x"]}, {"f:whole": {}, "f:list": {}}),
        ({"set": ["x", "y"]}, {"f:set": {'v:"x"': {}, 'v:"y"': {}}}),
        ({"set": []}, {}),
        (
            {"ports": [{"port": 80, "name": "web"}]},
            {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}},
        ),
        ({"byStrategy": [{"name": "x"}]}, {"f:byStrategy": {'k:{"name":"x"}': {".": {}, "f:name": {}}}}),
        ({"struct": {"a": "1"}}, {"f:struct": {"f:a": {}}}),
        ({"struct": {}}, {"f:struct": {}}),
    ],
)
def test_applied_fields(value: Any, fields: Any) -> None:
    assert applied_fields(NODE, value) == fields


def test_types_are_deduced_where_there_is_no_schema() -> None:
    value = {"spec": {"a": 1, "list": [{"b": 2}], "deep": {"c": {}}}}
    assert applied_fields(ANYTHING, value) == {
        "f:spec": {".": {}, "f:a": {}, "f:list": {}, "f:deep": {".": {}, "f:c": {}}}
    }


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("x", {}),
        ({}, {}),
        ({"map": {"a": "1"}}, {".": {}, "f:map": {".": {}, "f:a": {}}}),
        ({"set": []}, {".": {}, "f:set": {}}),
        ({"set": ["x"]}, {".": {}, "f:set": {".": {}, 'v:"x"': {}}}),
        ({"set": ["x", "x"]}, {".": {}, "f:set": {".": {}, 'v:"x"': {}}}),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
            {".": {}, "f:ports": {".": {}, 'k:{"port":1,"protocol":"TCP"}': {}}},
        ),
        # a struct that is always there is owned by who brings what is around it
        ({"struct": {"a": "1"}}, {".": {}, "f:struct": {".": {}, "f:a": {}, "f:inner": {}}}),
    ],
)
def test_every_field(value: Any, fields: Any) -> None:
    assert every_field(NODE, value) == fields


def test_name_structs() -> None:
    fields = {"f:struct": {"f:inner": {"f:b": {}}}, "f:map": {"f:a": {}}, "f:ports": {'k:{"port":1}': {"f:name": {}}}}
    assert name_structs(NODE, fields) == {
        "f:struct": {".": {}, "f:inner": {".": {}, "f:b": {}}},
        "f:map": {".": {}, "f:a": {}},
        "f:ports": {".": {}, 'k:{"port":1}': {"f:name": {}}},
    }


def test_a_part_becomes_the_whole_when_the_schema_turns_atomic() -> None:
    before = {
        "f:whole": {"f:a": {}},
        "f:list": {'v:"x"': {}},
        "f:map": {"f:a": {}},
        "f:ports": {"k:{}": {"f:name": {}}},
    }
    after = reconciled(NODE, before)
    assert after == {"f:whole": {}, "f:list": {}, "f:map": {"f:a": {}}, "f:ports": {"k:{}": {"f:name": {}}}}
    assert reconciled(NODE, after) is after


def test_metadata_is_known_for_every_kind() -> None:
    value = {"metadata": {"labels": {"a": "b"}, "finalizers": ["x"], "ownerReferences": [{"uid": "u", "name": "n"}]}}
    assert applied_fields(rooted(NODE), value) == {
        "f:metadata": {
            "f:labels": {"f:a": {}},
            "f:finalizers": {'v:"x"': {}},
            "f:ownerReferences": {'k:{"uid":"u"}': {}},
        }
    }
