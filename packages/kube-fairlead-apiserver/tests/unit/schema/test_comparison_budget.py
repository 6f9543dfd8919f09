from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver import offload
from kube_fairlead_apiserver.schema import comparison_budget, validation
from kube_fairlead_apiserver.schema.model import compile_schema

Json = dict[str, Any]


def nested(junctor: str, depth: int) -> Json:
    """Alternatives of alternatives, none of which is met."""
    schema: Json = {"pattern": "never"}
    for _ in range(depth):
        schema = {junctor: [schema, schema]}
    return schema


def of_strings(schema: Json) -> Json:
    return {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string", **schema}}}}


@pytest.mark.parametrize("junctor", ["anyOf", "oneOf"])
def test_a_validation_ends_after_a_bounded_number_of_comparisons(monkeypatch: pytest.MonkeyPatch, junctor: str) -> None:
    spent: list[int] = []
    spend = comparison_budget.spend

    def counted(comparisons: int) -> None:
        spent.append(comparisons)
        spend(comparisons)

    monkeypatch.setattr(comparison_budget, "spend", counted)
    monkeypatch.setattr(comparison_budget, "MOST_COMPARISONS", 20_000)
    for size in (100, 200):
        spent.clear()
        errors = validation.validate(compile_schema(of_strings(nested(junctor, 9))), {"x": ["a"] * size})
        assert len(errors) == 1
        assert "comparisons; use fewer or less deep anyOf" in str(errors[0])
        assert sum(spent) < 21_000


def test_ordinary_alternatives_are_explained_as_ever() -> None:
    port = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": port}}}
    node = compile_schema(schema)
    assert validation.validate(node, {"x": [1, "a"] * 50_000}) == []
    messages = [str(error) for error in validation.validate(node, {"x": [1, True]})]
    assert any("must validate at least one schema (anyOf)" in message for message in messages)


def test_alternatives_of_one_value_are_counted_together() -> None:
    assert comparison_budget.count_parts({"type": "string"}) == 0
    assert comparison_budget.count_parts(of_strings(nested("anyOf", 1))) == 2
    assert comparison_budget.count_parts(of_strings(nested("oneOf", 9))) == 1022
    assert comparison_budget.count_parts({"not": {"properties": {"a": {"allOf": [{}]}}}}) == 3


def test_what_a_request_weighs_is_known_to_its_validation() -> None:
    offload.begin_request("u")
    offload.weigh(500)
    assert offload.weighed() == 500


def with_rule(rule: str, **more: Any) -> Json:
    return {"x-kubernetes-validations": [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("schema", "loops"),
    [
        pytest.param(with_rule("self.a > self.b"), 0, id="none"),
        pytest.param(with_rule("self.all(x, x > 0)"), 1, id="one"),
        pytest.param(with_rule("self.all(x, self.exists_one (y, x == y))"), 2, id="one in another"),
        pytest.param(with_rule("sets.contains(self.a, self.b)"), 1, id="a function that compares all pairs"),
        pytest.param({"items": with_rule("self > 0")}, 1, id="for each element"),
        pytest.param({"additionalProperties": {"items": with_rule("self.size() > 0")}}, 2, id="for each of each value"),
        pytest.param(with_rule("true", messageExpression="self.map(x, x).join()"), 1, id="in a message"),
        pytest.param(with_rule("self.overall(x) && self.mapped"), 0, id="names that only end or begin like one"),
    ],
)
def test_loops_of_rules_are_counted(schema: Json, loops: int) -> None:
    inside = {"type": "object", "properties": {"spec": schema}}
    assert comparison_budget.count_loops(inside) == (64**loops if loops else 0)


def test_rules_add_up() -> None:
    one, two = with_rule("self.all(x, x > 0)"), with_rule("self.all(x, self.all(y, x > y))")
    assert comparison_budget.count_loops({"properties": {"a": one, "b": two, "c": two}}) == 64 + 2 * 64**2
