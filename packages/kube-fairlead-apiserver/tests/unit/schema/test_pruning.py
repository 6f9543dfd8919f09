from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.fielderrors import MAX_PATH_CHARACTERS
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema
from kube_fairlead_apiserver.schema.pruning import MAX_PATHS, prune

OPEN = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "value", "result", "paths"),
    [
        pytest.param({"properties": {"a": {}}}, {"a": 1, "b": 2}, {"a": 1}, ["b"], id="unknown-field"),
        pytest.param(
            {"properties": {"spec": {"properties": {"l": {"items": {"properties": {"x": {}}}}}}}},
            {"spec": {"l": [{"x": 1, "y": 2}, {"z": 3}], "q": 1}, "status": {}},
            {"spec": {"l": [{"x": 1}, {}]}},
            ["spec.l[0].y", "spec.l[1].z", "spec.q", "status"],
            id="nested",
        ),
        pytest.param({}, {"a": {"b": 1}}, {}, ["a"], id="empty-schema"),
        pytest.param(OPEN, {"a": {"b": 1}}, {"a": {"b": 1}}, [], id="preserve"),
        pytest.param(
            {**OPEN, "properties": {"a": {"properties": {"b": {}}}}},
            {"a": {"b": 1, "c": 2}, "d": {"e": 1}},
            {"a": {"b": 1}, "d": {"e": 1}},
            ["a.c"],
            id="preserve-prunes-below-declared-fields",
        ),
        pytest.param(
            {"properties": {"l": {**OPEN, "items": {"properties": {"x": {"properties": {}}}}}}},
            {"l": [{"x": {"y": 1}, "z": 1}]},
            {"l": [{"x": {}, "z": 1}]},
            ["l[0].x.y"],
            id="preserve-reaches-list-items",
        ),
        pytest.param(
            {"properties": {"m": {"additionalProperties": {"properties": {"x": {}}}}}},
            {"m": {"k": {"x": 1, "y": 2}}},
            {"m": {"k": {"x": 1}}},
            ["m.k.y"],
            id="map-values",
        ),
        pytest.param(
            {"properties": {"m": {"additionalProperties": True}}},
            {"m": {"k": {"x": 1}, "l": 2}},
            {"m": {"k": {}, "l": 2}},
            ["m.k.x"],
            id="any-key-is-not-any-value",
        ),
        pytest.param(
            {"properties": {"e": {"x-kubernetes-embedded-resource": True, "properties": {"s": {}}}}},
            {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"any": 1}, "s": 1, "t": 2}},
            {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"any": 1}, "s": 1}},
            ["e.t"],
            id="embedded-resource",
        ),
        pytest.param(
            {"properties": {"a": {}}}, {"a": [{"x": 1}, [{"y": 1}]]}, {"a": [{}, [{}]]}, ["a[0].x", "a[1][0].y"]
        ),
    ],
)
def test_what_the_schema_does_not_know_goes(
    schema: dict[str, Any], value: dict[str, Any], result: dict[str, Any], paths: list[str]
) -> None:
    assert prune(compile_schema(schema), value) == paths
    assert value == result


def test_root_keeps_its_type_and_metadata_and_a_part_does_not() -> None:
    whole = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "x": 1}
    part = copy.deepcopy(whole)
    assert prune(SchemaNode(), whole) == ["x"]
    assert whole == {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}
    assert prune(SchemaNode(), part, root=False) == ["apiVersion", "kind", "metadata", "x"]
    assert prune(None, {"x": 1}, root=False) == ["x"]


_names = st.sampled_from(["a", "b", "c", "metadata"])
_values = st.recursive(
    st.none() | st.integers(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(_names, children, max_size=3),
)
_schemas = st.recursive(
    st.sampled_from([{}, OPEN]),
    lambda children: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(_names, children, max_size=3),
            "additionalProperties": children,
            "items": children,
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
        },
    ),
)


@given(_schemas, _values)
def test_pruning_twice_is_pruning_once(schema: dict[str, Any], value: Any) -> None:
    node = compile_schema(schema)
    prune(node, value)
    again = copy.deepcopy(value)
    assert prune(node, again) == []
    assert again == value


def test_no_more_paths_are_told_than_a_client_can_take_in_and_none_repeats_a_key_of_a_megabyte() -> None:
    node = compile_schema({"type": "object", "additionalProperties": {"type": "object", "properties": {"known": {}}}})
    value = {"x" * 1_000_000: {"known": 1, **{f"k{n}": n for n in range(10_000)}}}
    removed = prune(node, value, root=False)
    assert len(removed) == MAX_PATHS
    assert all(len(path) <= MAX_PATH_CHARACTERS for path in removed)
    assert list(value.values()) == [{"known": 1}]
