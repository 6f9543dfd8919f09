from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.schema.defaulting import apply_defaults, copy_json, prune_nulls
from kube_fairlead_apiserver.schema.model import compile_schema


@pytest.mark.parametrize(
    ("schema", "value", "result"),
    [
        pytest.param({"properties": {"a": {"default": 1}}}, {}, {"a": 1}, id="absent"),
        pytest.param({"properties": {"a": {"default": 1}}}, {"a": 0}, {"a": 0}, id="present"),
        pytest.param({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": 1}, id="null-replaced"),
        pytest.param(
            {"properties": {"a": {"default": 1, "nullable": True}}}, {"a": None}, {"a": None}, id="null-allowed"
        ),
        pytest.param({"properties": {"a": {}}}, {"a": None, "u": None}, {"u": None}, id="null-removed"),
        pytest.param(
            {"properties": {"a": {"default": {}, "properties": {"b": {"default": [1]}}}}},
            {},
            {"a": {"b": [1]}},
            id="default-inside-a-default",
        ),
        pytest.param(
            {"properties": {"a": {"properties": {"b": {"default": 1}}}}}, {}, {}, id="absent-parent-stays-absent"
        ),
        pytest.param(
            {"properties": {"l": {"items": {"properties": {"p": {"default": "TCP"}}}}}},
            {"l": [{}, {"p": "UDP"}, 3]},
            {"l": [{"p": "TCP"}, {"p": "UDP"}, 3]},
            id="items",
        ),
        pytest.param({"properties": {"l": {"items": {"default": 7}}}}, {"l": [None, 1]}, {"l": [7, 1]}, id="null-item"),
        pytest.param(
            {"properties": {"l": {"items": {}}}}, {"l": [None, {"a": None}]}, {"l": [None, {"a": None}]}, id="null-kept"
        ),
        pytest.param(
            {"additionalProperties": {"default": 5, "nullable": False}}, {"k": None}, {"k": 5}, id="null-in-a-map"
        ),
        pytest.param(
            {"additionalProperties": {"properties": {"x": {"default": 1}}}},
            {"k": {}, "n": None},
            {"k": {"x": 1}},
            id="map-values",
        ),
        pytest.param({"properties": {"a": {"default": None}}}, {"a": None}, {}, id="a-null-default-is-none"),
    ],
)
def test_defaults_fill_what_is_missing(schema: dict[str, Any], value: Any, result: Any) -> None:
    apply_defaults(compile_schema(schema), value)
    assert value == result


def test_defaults_are_copied_never_shared() -> None:
    node = compile_schema({"properties": {"a": {"default": {"l": []}}}})
    first: dict[str, Any] = {}
    apply_defaults(node, first)
    first["a"]["l"].append(1)
    second: dict[str, Any] = {}
    apply_defaults(node, second)
    assert second == {"a": {"l": []}}


def test_nulls_can_be_pruned_alone_or_left() -> None:
    node = compile_schema({"properties": {"a": {}, "b": {"default": 1}}})
    value: dict[str, Any] = {"a": None, "b": None}
    prune_nulls(node, value)
    assert value == {"b": None}
    value = {"a": None}
    apply_defaults(node, value, nulls=False)
    assert value == {"a": None, "b": 1}


def test_a_recursive_schema_ends() -> None:
    schemas = {"t": {"properties": {"next": {"$ref": "t"}, "n": {"default": 1}}}}
    node = compile_schema({"$ref": "t"}, schemas.__getitem__)
    value: dict[str, Any] = {"next": {"next": {}}}
    apply_defaults(node, value)
    assert value == {"n": 1, "next": {"n": 1, "next": {"n": 1}}}


_values = st.recursive(
    st.none() | st.integers(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("abc"), children, max_size=3),
)
_schemas = st.recursive(
    st.fixed_dictionaries({}, optional={"default": st.integers(), "nullable": st.booleans()}),
    lambda children: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), children, max_size=3),
            "additionalProperties": children,
            "items": children,
            "default": st.sampled_from([1, {}, []]),
            "nullable": st.booleans(),
        },
    ),
)


@given(_schemas, _values)
def test_defaulting_twice_is_defaulting_once(schema: dict[str, Any], value: Any) -> None:
    node = compile_schema(schema)
    apply_defaults(node, value)
    again = copy_json(value)
    assert again == copy.deepcopy(value)
    apply_defaults(node, again)
    assert again == value
