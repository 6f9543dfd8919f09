from __future__ import annotations

import threading
from typing import Any

import pytest

from fairlead.apiserver import offload
from fairlead.apiserver.schema import effort, validation
from fairlead.apiserver.schema.model import compile_schema
from fairlead.apiserver.schema.rules import compile_rules

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
    spend = effort.spend

    def counted(comparisons: int) -> None:
        spent.append(comparisons)
        spend(comparisons)

    monkeypatch.setattr(effort, "spend", counted)
    monkeypatch.setattr(effort, "MOST_COMPARISONS", 20_000)
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
    assert effort.count_parts({"type": "string"}) == 0
    assert effort.count_parts(of_strings(nested("anyOf", 1))) == 2
    assert effort.count_parts(of_strings(nested("oneOf", 9))) == 1022
    assert effort.count_parts({"not": {"properties": {"a": {"allOf": [{}]}}}}) == 3


def test_what_a_request_weighs_is_known_to_its_validation() -> None:
    offload.begin_request("u")
    offload.weigh(500)
    assert offload.weighed() == 500


_EACH_WITH_EACH = "self.all(x, self.all(y, x + y >= 0))"


def of_rules(*rules: str) -> Json:
    listed = [{"rule": rule} for rule in rules]
    integers = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": listed}
    return {"type": "object", "properties": {"x": integers}}


@pytest.mark.parametrize(
    ("rules", "values"),
    [
        pytest.param([_EACH_WITH_EACH], list(range(300)), id="one call"),
        pytest.param([_EACH_WITH_EACH] * 10, list(range(100)), id="many calls"),
        pytest.param(["self.all(x, self.all(y, x + y < 598))"], list(range(300)), id="not met by the last pair"),
        pytest.param([_EACH_WITH_EACH], list(range(1500)), id="more than Kubernetes allows for a call"),
        pytest.param([_EACH_WITH_EACH] * 30, list(range(300)), id="more than Kubernetes allows in all"),
    ],
)
async def test_rules_that_take_long_leave_the_event_loop(rules: list[str], values: list[int]) -> None:
    tree = compile_rules(compile_schema(of_rules(*rules)))
    assert tree is not None
    threads: list[int] = []

    def validate() -> list[str]:
        threads.append(threading.get_ident())
        return [str(error) for error in tree.validate({"x": values})]

    wanted = validate()
    offload.begin_request("alice")
    assert await offload.Offload().run(validate) == wanted
    assert threads[:2] == [threading.get_ident()] * 2
    assert len(threads) == 3
    assert threads[2] != threading.get_ident()


async def test_ordinary_rules_stay_on_the_event_loop() -> None:
    tree = compile_rules(compile_schema(of_rules("self.all(x, x >= 0)")))
    assert tree is not None
    offload.begin_request("alice")
    assert await offload.Offload().run(tree.validate, {"x": list(range(300))}) == []
    assert offload.weighed() == 0
    assert not effort.in_turn()
