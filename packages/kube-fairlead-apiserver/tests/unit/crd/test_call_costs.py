from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from kube_fairlead_apiserver.cel import environment
from kube_fairlead_apiserver.crd import call_costs, sizes
from kube_fairlead_apiserver.crd.estimates import COST_MAX
from kube_fairlead_apiserver.schema import expression_types
from kube_fairlead_apiserver.schema.model import compile_schema

RECORDED = json.loads((pathlib.Path(__file__).parent / "testdata" / "costs.json").read_text())


@pytest.mark.parametrize(("rule", "cost"), RECORDED["costs"])
def test_the_estimate_is_the_one_that_kubernetes_gave(rule: str, cost: int) -> None:
    """Recorded from k8s.io/apiextensions-apiserver v0.36.4."""
    node = compile_schema(RECORDED["schema"])
    self_type = expression_types.from_schema(node)
    declared = sizes.declare(node)
    assert declared is not None
    root = environment.Environment({"self": self_type, "oldSelf": self_type}).check(rule)
    assert call_costs.estimate(root, declared) == cost


def test_costs_do_not_overflow() -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    node = compile_schema({"type": "object", "properties": {"l": strings}})
    self_type = expression_types.from_schema(node)
    declared = sizes.declare(node)
    assert declared is not None
    nested = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d != ''))))"
    root = environment.Environment({"self": self_type}).check(nested)
    assert call_costs.estimate(root, declared) == COST_MAX


@pytest.mark.parametrize(
    ("schema", "elements", "smallest"),
    [
        ({"type": "string"}, sizes.REQUEST_BYTES_MAX - 2, 2),
        ({"type": "string", "maxLength": 10}, 40, 2),
        ({"type": "string", "format": "byte", "maxLength": 10}, 10, 2),
        ({"type": "string", "enum": ["a", "bbb"]}, 3, 2),
        ({"type": "string", "format": "date-time"}, 32, 21),
        ({"type": "integer"}, 0, 1),
        ({"type": "boolean"}, 0, 4),
        ({"x-kubernetes-int-or-string": True}, sizes.REQUEST_BYTES_MAX - 2, 1),
        ({"type": "array", "items": {"type": "string"}}, 1048575, 2),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, 3, 2),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, 449389, 2),
        ({"type": "object", "properties": {"ab": {"type": "string"}}, "required": ["ab"]}, 0, 10),
        ({"type": "object", "properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]}, 0, 2),
    ],
)
def test_sizes_follow_the_schema_and_the_largest_request(schema: Any, elements: int, smallest: int) -> None:
    declared = sizes.declare(compile_schema(schema))
    assert declared is not None
    assert (declared.elements_max, declared.bytes_min) == (elements, smallest)


def test_what_expressions_cannot_see_has_no_size() -> None:
    assert sizes.declare(compile_schema({"x-kubernetes-preserve-unknown-fields": True})) is None
    assert sizes.declare(compile_schema({"type": "array"})) is None
    declared = sizes.declare(compile_schema({"type": "object"}), resource=True)
    assert declared is not None
    assert declared.at(["metadata", "name"]) is not None
    assert declared.at(["metadata", "labels", "x"]) is None
