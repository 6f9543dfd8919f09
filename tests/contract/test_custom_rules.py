"""CEL validation rules of custom resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Define = Callable[..., Awaitable[Any]]

SPEC = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.min <= self.max", "message": "min must not exceed max"},
        {
            "rule": "self.max < 100",
            "messageExpression": "self.max > 150 ? 'far too much' : 'too much'",
            "reason": "FieldValueForbidden",
        },
        {"rule": "!has(self.names) || self.names.all(n, n.startsWith('x'))", "fieldPath": ".names"},
    ],
    "properties": {
        "min": {"type": "integer"},
        "max": {"type": "integer"},
        "names": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "frozen": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen is immutable"}],
        },
    },
}


@pytest.fixture
async def widgets(define: Define) -> Any:
    return await define(spec_schema=SPEC, shared=True)


@pytest.mark.parametrize(
    ("spec", "message", "field", "reason"),
    [
        (
            {"min": 5, "max": 1},
            "spec: Invalid value: min must not exceed max",
            "spec",
            "FieldValueInvalid",
        ),
        ({"min": 1, "max": 200}, "spec: Forbidden: far too much", "spec", "FieldValueForbidden"),
        (
            {"min": 1, "max": 2, "names": ["y"]},
            ("spec.names: Invalid value: failed rule: !has(self.names) || self.names.all(n, n.startsWith('x'))"),
            "spec.names",
            "FieldValueInvalid",
        ),
    ],
)
async def test_rules(api: RawApi, widgets: Any, spec: dict[str, Any], message: str, field: str, reason: str) -> None:
    status = (await api.post(widgets.path(), widgets.make("a", spec))).expect(422)
    assert status["message"] == f'Widget.{widgets.group} "a" is invalid: {message}'
    assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [(field, reason)]


async def test_rules_that_hold(api: RawApi, widgets: Any) -> None:
    (await api.post(widgets.path(), widgets.make("a", {"min": 1, "max": 2, "names": ["x1"]}))).expect(201)


async def test_transition_rules_compare_with_before(api: RawApi, widgets: Any) -> None:
    spec = {"min": 1, "max": 2, "frozen": "a"}
    (await api.post(widgets.path(), widgets.make("a", spec))).expect(201)
    (await api.patch(f"{widgets.path()}/a", {"spec": {"max": 3}})).expect(200)
    status = (await api.patch(f"{widgets.path()}/a", {"spec": {"frozen": "b"}})).expect(422)
    assert status["message"] == (
        f'Widget.{widgets.group} "a" is invalid: spec.frozen: Invalid value: "b": frozen is immutable'
    )
    # A rule with oldSelf says nothing about a value that comes or goes.
    (await api.patch(f"{widgets.path()}/a", {"spec": {"frozen": None}})).expect(200)
    (await api.patch(f"{widgets.path()}/a", {"spec": {"frozen": "c"}})).expect(200)


async def test_a_rule_that_fails_to_evaluate_refuses(api: RawApi, define: Define) -> None:
    gauges = await define(
        kind="Gauge",
        spec_schema={
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.a / self.b > 1"}],
        },
    )
    status = (await api.post(gauges.path(), gauges.make("x", {"a": 1, "b": 0}))).expect(422)
    assert "division by zero evaluating rule: self.a / self.b > 1" in status["message"]


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("self.nothing > 1", "undefined field 'nothing'"),
        ("self.min >", "Syntax error"),
        ("self.min + 1", "must evaluate to a bool"),
        ("self.min == 'a'", "found no matching overload"),
    ],
)
async def test_rules_that_do_not_compile(api: RawApi, rule: str, part: str) -> None:
    spec = {"type": "object", "properties": {"min": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": rule}]}
    manifest = custom_resource_definition("widgets", "badrule.example.com", kind="Widget", spec_schema=spec)
    status = (await api.post(CRDS, manifest)).expect(422)
    cause = status["details"]["causes"][0]
    assert cause["field"] == ("spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule")
    assert part in cause["message"]


async def test_rules_at_the_root_see_metadata(api: RawApi, define: Define) -> None:
    gauges = await define(
        kind="Gauge",
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('ok-')", "message": "bad name"}],
        },
    )
    (await api.post(gauges.path(), gauges.make("ok-1", {"n": 1}))).expect(201)
    status = (await api.post(gauges.path(), gauges.make("other", {"n": 1}))).expect(422)
    assert "bad name" in status["message"]
