from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.schema.correlation import CorrelatedValue, map_key, same_json
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema


def _list(*keys: str, items: dict[str, Any] | None = None) -> SchemaNode:
    return compile_schema(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(keys),
            "items": items or {"type": "object", "properties": {"a": {}, "b": {}, "v": {}}},
        }
    )


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(1, 1, True), (1, 1.0, False), (1, True, False), ([1, {}], [1, {}], True), ({"a": 1}, {"a": None}, False)],
)
def test_json_values_compare_with_their_type(left: Any, right: Any, same: bool) -> None:
    assert same_json(left, right) is same


def test_items_pair_by_all_keys_or_not_at_all() -> None:
    node = _list("a", "b")
    old = [{"a": 1, "b": 2, "v": "x"}, {"a": 1, "v": "y"}, 7]
    pair = CorrelatedValue(node, [{"b": 2, "a": 1, "v": "z"}, {"a": 1}, {"a": 9, "b": 9}, 7], old)
    first = pair.item(0)
    assert first is not None
    assert first.old == old[0]
    assert [pair.item(index) for index in (1, 2, 3)] == [None, None, None]
    assert map_key(node, {"a": 1, "b": {}}) is None


def test_fields_pair_when_the_schema_knows_them() -> None:
    node = compile_schema({"properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True})
    pair = CorrelatedValue(node, {"a": 1, "u": 1}, {"a": 1, "u": 1})
    assert pair.field("a") is not None
    assert pair.field("u") is None
    assert CorrelatedValue(node, {"a": 1}, {}).field("a") is None
    assert CorrelatedValue(node, [], {}).field("a") is None


def test_a_map_list_is_unchanged_in_any_order() -> None:
    items = [{"a": 1, "v": [1]}, {"a": 2, "v": [2]}]
    node = _list("a")
    assert CorrelatedValue(node, items[::-1], items).unchanged()
    assert not CorrelatedValue(node, items[:1], items).unchanged()
    assert not CorrelatedValue(node, [*items[:1], {"a": 3}], items).unchanged()
    assert not CorrelatedValue(compile_schema({"items": {}}), items[::-1], items).unchanged()
