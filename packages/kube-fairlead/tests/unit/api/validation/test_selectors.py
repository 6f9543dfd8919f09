from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import NodeSelector
from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead.api.validation import selectors
from tests.unit.api import spec_validation

PATH = FieldPath("s")
NEEDS = "must be specified when `operator` is 'In' or 'NotIn'"
FORBIDS = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


@pytest.mark.parametrize(
    ("expression", "messages"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, []),
        ({"key": "a", "operator": "In"}, [f"s.matchExpressions[0].values: Required value: {NEEDS}"]),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            [f"s.matchExpressions[0].values: Forbidden: {FORBIDS}"],
        ),
        (
            {"key": "a", "operator": "Gt", "values": ["1"]},
            ['s.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
        ),
    ],
)
def test_label_selectors(expression: dict[str, Any], messages: list[str]) -> None:
    errors = selectors.validate_label_selector({"matchExpressions": [expression]}, PATH)
    assert [str(error) for error in errors] == messages


def test_label_selector_keys_and_values() -> None:
    tree = {"matchLabels": {"a b": "c"}, "matchExpressions": [{"key": "", "operator": "In", "values": ["-"]}]}
    fields = {error.field for error in selectors.validate_label_selector(tree, PATH)}
    assert fields == {"s.matchLabels", "s.matchExpressions[0].key", "s.matchExpressions[0].values[0]"}


@pytest.mark.parametrize(
    ("term", "fields"),
    [
        ({}, []),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, []),
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, ["matchExpressions[0].values"]),
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, ["matchExpressions[0].operator"]),
        ({"matchExpressions": [{"key": "a/", "operator": "Exists"}]}, ["matchExpressions[0].key"] * 2),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}] * 65}, ["matchExpressions"]),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * 65}]}, ["matchExpressions[0].values"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, []),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["N"]}]}, ["matchFields[0].values[0]"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": []}]}, ["matchFields[0].values"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, ["matchFields[0].operator"]),
        ({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]}, ["matchFields[0].key"]),
    ],
)
def test_node_selectors(term: dict[str, Any], fields: list[str]) -> None:
    selector = wire.from_dict(NodeSelector, {"nodeSelectorTerms": [term]})
    errors = spec_validation.validate_node_selector(selector, PATH)
    assert [error.field for error in errors] == [f"s.nodeSelectorTerms[0].{field}" for field in fields]
