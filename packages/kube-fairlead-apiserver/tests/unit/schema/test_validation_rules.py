from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.schema.model import compile_schema
from kube_fairlead_apiserver.schema.validation_rules import RuleTree, compile_rules, validate_rules


def _rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


def _spec(properties: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def _value(schema: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return _spec({"x": {**schema, "x-kubernetes-validations": list(rules)}})


def _errors(schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(error) for error in validate_rules(compile_schema(schema), {"spec": spec}, old=before)]


INTEGERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}


@pytest.mark.parametrize(
    ("rule", "spec", "error"),
    [
        (_rule("self.a < self.b"), {"a": 1, "b": 2}, None),
        (_rule("self.a < self.b"), {"a": 3, "b": 2}, "spec: Invalid value: failed rule: self.a < self.b"),
        (_rule("self.a > 0", message=" a must be positive "), {"a": 0}, "spec: Invalid value: a must be positive"),
        (
            _rule("self.b < 9", messageExpression="'b is ' + string(self.b)", message="m"),
            {"b": 10},
            "spec: Invalid value: b is 10",
        ),
        (
            _rule("self.b < 9", messageExpression="string(1 / (self.b - 10))"),
            {"b": 10},
            "spec: Invalid value: failed rule: self.b < 9",
        ),
        (_rule("self.b < 9", messageExpression="'a\\nb'", message="m"), {"b": 10}, "spec: Invalid value: m"),
        (
            _rule("self.a != 5", reason="FieldValueForbidden", fieldPath=".a"),
            {"a": 5},
            "spec.a: Forbidden: failed rule: self.a != 5",
        ),
        (_rule("self.a != 5", reason="FieldValueRequired"), {"a": 5}, "spec: Required value: failed rule: self.a != 5"),
        (_rule("self.a != 5", reason="FieldValueDuplicate"), {"a": 5}, "spec: Duplicate value"),
        (_rule("self.a > 0"), {"b": 1}, 'spec: Invalid value: "object": no such key: a evaluating rule: self.a > 0'),
        (
            _rule("10 / self.a > 1"),
            {"a": 0},
            'spec: Invalid value: "object": division by zero evaluating rule: 10 / self.a > 1',
        ),
    ],
)
def test_a_failed_rule_has_kubernetes_words(rule: dict[str, Any], spec: Any, error: str | None) -> None:
    assert _errors(_spec(INTEGERS, rule), spec) == ([] if error is None else [error])


@pytest.mark.parametrize(
    ("schema", "rule", "value", "error"),
    [
        ({"type": "string"}, _rule("self == 'a'"), "b", "spec.x: Invalid value: \"b\": failed rule: self == 'a'"),
        ({"type": "number"}, _rule("self < 1.5"), 2.5, "spec.x: Invalid value: 2.5: failed rule: self < 1.5"),
        (
            {"type": "array", "items": {"type": "integer"}},
            _rule("self.all(i, i > 0)"),
            [1, -1],
            "spec.x: Invalid value: failed rule: self.all(i, i > 0)",
        ),
        (
            {"type": "string", "format": "date-time"},
            _rule("self > timestamp('2020-01-01T00:00:00Z')"),
            "2019-01-01T00:00:00Z",
            "spec.x: Invalid value: \"2019-01-01T00:00:00Z\": failed rule: self > timestamp('2020-01-01T00:00:00Z')",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            _rule("self + 1 == 2"),
            "b",
            (
                "spec.x: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, "
                "function or macro signature for rule: self + 1 == 2"
            ),
        ),
        ({"type": "string"}, _rule("self == 'a'"), None, None),
    ],
)
def test_rules_see_values_through_their_schema(schema: Any, rule: Any, value: Any, error: str | None) -> None:
    assert _errors(_value(schema, rule), {"x": value}) == ([] if error is None else [error])


def test_a_transition_rule_runs_only_where_old_and_new_pair() -> None:
    schema = _value({"type": "string"}, _rule("self == oldSelf", message="immutable"))
    assert _errors(schema, {"x": "a"}) == []
    assert _errors(schema, {"x": "a"}, {}) == []
    assert _errors(schema, {"x": "a"}, {"x": "a"}) == []
    assert _errors(schema, {"x": "a"}, {"x": "b"}) == ['spec.x: Invalid value: "a": immutable']


def test_optional_old_self_runs_without_an_old_value() -> None:
    rule = _rule("oldSelf.hasValue() && self == oldSelf.value()", message="m", optionalOldSelf=True)
    schema = _value({"type": "string"}, rule)
    assert _errors(schema, {"x": "a"}) == ['spec.x: Invalid value: "a": m']
    assert _errors(schema, {"x": "a"}, {"x": "a"}) == []


def test_items_pair_by_key_in_lists_of_type_map() -> None:
    value = {"type": "integer", "x-kubernetes-validations": [_rule("self >= oldSelf")]}
    schema = _spec(
        {
            "l": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": value}},
            }
        }
    )
    old = {"l": [{"k": "b", "v": 2}, {"k": "a", "v": 2}]}
    assert _errors(schema, {"l": [{"k": "a", "v": 1}, {"k": "c", "v": 0}, {"k": "b", "v": 2}]}, old) == [
        "spec.l[0].v: Invalid value: 1: failed rule: self >= oldSelf"
    ]


def test_a_failure_that_an_update_did_not_cause_is_a_warning() -> None:
    tree = compile_rules(compile_schema(_spec(INTEGERS, _rule("self.a < self.b"))))
    assert tree is not None
    warnings: list[str] = []
    broken = {"spec": {"a": 3, "b": 2}}
    assert tree.validate(broken, old=broken, warnings=warnings) == []
    assert warnings == ["spec: Invalid value: failed rule: self.a < self.b"]
    assert len(tree.validate({"spec": {"a": 4, "b": 2}}, old=broken)) == 1


def test_items_that_pair_with_nothing_are_excused_by_an_unchanged_list() -> None:
    item = {"type": "string", "x-kubernetes-validations": [_rule("self == 'x'")]}
    schema = _spec({"l": {"type": "array", "items": item}})
    assert _errors(schema, {"l": ["y"]}, {"l": ["y"]}) == []
    assert len(_errors(schema, {"l": ["y", "y"]}, {"l": ["y"]})) == 2


def test_a_root_and_an_embedded_resource_know_their_type_and_name() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-validations": [_rule("self.metadata.name == 'a' && self.kind == 'K'")],
        "properties": {
            "e": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-validations": [_rule("self.apiVersion == 'v1'")],
            }
        },
    }
    value = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "b"}, "e": {"apiVersion": "v2"}}
    assert [str(error) for error in validate_rules(compile_schema(schema), value)] == [
        "<nil>: Invalid value: failed rule: self.metadata.name == 'a' && self.kind == 'K'",
        "e: Invalid value: failed rule: self.apiVersion == 'v1'",
    ]


def test_the_budget_ends_everything() -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    rule = _rule("self.all(a, self.all(b, self.all(c, a + b + c != '')))")
    errors = _errors(_value(strings, rule, _rule("false")), {"x": [str(i) for i in range(900)]})
    assert len(errors) == 1
    assert "no further validation rules will be run due to call cost exceeds limit for rule: " in errors[0]


def test_many_rules_share_one_budget() -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    rules = [_rule(f"self.all(a, self.all(b, a.size() + b.size() > {i}))") for i in range(-200, 0)]
    errors = _errors(_value(strings, *rules), {"x": ["a"] * 200})
    assert errors == [
        (
            'spec.x: Invalid value: "array": validation failed due to running out of cost budget, '
            "no further validation rules will be run"
        )
    ]


def test_a_schema_without_rules_compiles_to_nothing() -> None:
    assert compile_rules(compile_schema({"type": "object"})) is None
    untyped = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [_rule("true")]}
    tree = compile_rules(compile_schema({"type": "object", "properties": {"u": untyped}}))
    assert isinstance(tree, RuleTree)
    assert tree.properties == {}


def test_a_rule_that_no_longer_compiles_is_told_at_its_value() -> None:
    schema = _value({"type": "string"}, _rule("nope"), _rule(" "))
    (error,) = _errors(schema, {"x": "a"})
    assert error.startswith(
        'spec.x: Invalid value: "string": rule compile error: compilation failed: ERROR: <input>:1:1'
    )


def test_errors_start_at_the_given_path() -> None:
    node = compile_schema({"type": "string", "x-kubernetes-validations": [_rule("false", message="m")]})
    assert [str(error) for error in validate_rules(node, "a", FieldPath("p"), root=False)] == [
        'p: Invalid value: "a": m'
    ]
