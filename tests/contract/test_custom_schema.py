"""Custom resources against their schema: pruning, defaults, validation and its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi

Define = Callable[..., Awaitable[Any]]

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "when": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number", "multipleOf": 0.5},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        },
        "limits": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer"}},
        "target": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}


@pytest.fixture
async def widgets(define: Define) -> Any:
    return await define(spec_schema=SPEC, shared=True)


async def test_unknown_fields_are_pruned(api: RawApi, widgets: Any) -> None:
    body = widgets.make("a", {"size": 1, "unknown": 1, "anything": {"goes": ["here"]}})
    made = (await api.post(widgets.path(), {**body, "extra": True}, fieldValidation="Ignore")).expect(201)
    assert made["spec"] == {"size": 1, "colour": "red", "anything": {"goes": ["here"]}}
    assert "extra" not in made


async def test_unknown_fields_warned_and_refused(api: RawApi, widgets: Any) -> None:
    body = widgets.make("a", {"size": 1, "unknown": 1})
    answer = await api.post(widgets.path(), body)
    answer.expect(201)
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.unknown\\""'
    status = (
        await api.post(widgets.path(), widgets.make("b", {"size": 1, "unknown": 1}), fieldValidation="Strict")
    ).expect(400)
    assert status["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.unknown"'
    )


async def test_defaults(api: RawApi, widgets: Any) -> None:
    body = widgets.make("a", {"size": 1, "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]})
    made = (await api.post(widgets.path(), body)).expect(201)
    assert made["spec"]["colour"] == "red"
    assert [port["protocol"] for port in made["spec"]["ports"]] == ["TCP", "UDP"]


async def test_null_is_dropped_or_defaulted_unless_nullable(api: RawApi, widgets: Any) -> None:
    body = widgets.make("a", {"size": 1, "colour": None, "maybe": None})
    made = (await api.post(widgets.path(), body)).expect(201)
    assert made["spec"] == {"size": 1, "colour": "red", "maybe": None}


@pytest.mark.parametrize(
    ("spec", "message", "reason"),
    [
        ({}, "spec.size: Required value", "FieldValueRequired"),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1", None),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10", None),
        (
            {"size": "big"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
            "FieldValueTypeInvalid",
        ),
        (
            {"size": 1.5},
            'spec.size: Invalid value: "number": spec.size in body must be of type integer: "number"',
            "FieldValueTypeInvalid",
        ),
        (
            {"size": 1, "colour": "blue"},
            'spec.colour: Unsupported value: "blue": supported values: "red", "green"',
            "FieldValueNotSupported",
        ),
        (
            {"size": 1, "name": "a"},
            'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long',
            None,
        ),
        (
            {"size": 1, "name": "abcde"},
            "spec.name: Too long: may not be more than 4 bytes",
            "FieldValueTooLong",
        ),
        (
            {"size": 1, "name": "ABC"},
            "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
            None,
        ),
        (
            {"size": 1, "when": "today"},
            'spec.when: Invalid value: "today": spec.when in body must be of type date-time: "today"',
            "FieldValueTypeInvalid",
        ),
        (
            {"size": 1, "ratio": 0.3},
            "spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.5",
            None,
        ),
        (
            {"size": 1, "tags": ["a", "b", "c"]},
            "spec.tags: Too many: 3: must have at most 2 items",
            "FieldValueTooMany",
        ),
        ({"size": 1, "tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"', "FieldValueDuplicate"),
        (
            {"size": 1, "ports": [{"port": 80}, {"port": 80}]},
            'spec.ports[1]: Duplicate value: {"port":80}',
            "FieldValueDuplicate",
        ),
        (
            {"size": 1, "ports": [{"protocol": "TCP"}]},
            "spec.ports[0].port: Required value",
            "FieldValueRequired",
        ),
        (
            {"size": 1, "limits": {"a": 1, "b": 2, "c": 3}},
            "spec.limits: Too many: 3: must have at most 2 items",
            "FieldValueTooMany",
        ),
        (
            {"size": 1, "limits": {"a": "x"}},
            'spec.limits.a: Invalid value: "string": spec.limits.a in body must be of type integer: "string"',
            "FieldValueTypeInvalid",
        ),
        (
            {"size": 1, "target": True},
            'spec.target: Invalid value: "boolean": spec.target in body must be of type integer,string: "boolean"',
            "FieldValueTypeInvalid",
        ),
        (
            {"size": 1, "template": {"metadata": {"name": "x"}}},
            "spec.template.apiVersion: Required value",
            "FieldValueRequired",
        ),
    ],
)
async def test_validation_messages(
    api: RawApi, widgets: Any, spec: dict[str, Any], message: str, reason: str | None
) -> None:
    status = (await api.post(widgets.path(), widgets.make("a", spec))).expect(422)
    assert status["reason"] == "Invalid"
    assert status["message"].startswith(f'Widget.{widgets.group} "a" is invalid: ')
    assert message in status["message"]
    assert status["details"]["name"] == "a"
    assert (status["details"]["group"], status["details"]["kind"]) == (widgets.group, "Widget")
    field = message.split(": ", 1)[0]
    reasons = {cause["reason"] for cause in status["details"]["causes"] if cause["field"] == field}
    assert (reason or "FieldValueInvalid") in reasons


async def test_all_errors_at_once(api: RawApi, widgets: Any) -> None:
    status = (await api.post(widgets.path(), widgets.make("a", {"size": 0, "colour": "blue"}))).expect(422)
    assert {cause["field"] for cause in status["details"]["causes"]} == {"spec.size", "spec.colour"}


async def test_good_values(api: RawApi, widgets: Any) -> None:
    spec = {
        "size": 10,
        "colour": "green",
        "name": "abc",
        "when": "2026-01-02T03:04:05Z",
        "ratio": 1.5,
        "tags": ["a", "b"],
        "limits": {"a": 1},
        "target": "50%",
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"any": "thing"}},
    }
    assert (await api.post(widgets.path(), widgets.make("a", spec))).expect(201)["spec"] == spec


async def test_ratcheting_lets_an_unchanged_bad_value_be(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=SPEC)
    (await api.post(widgets.path(), widgets.make("a", {"size": 9}))).expect(201)
    tighter = {
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum",
    }
    (await api.patch(widgets.definition, [{**tighter, "value": 5}], "application/json-patch+json")).expect(200)
    # The new schema is in force when it refuses a new object; nothing else announces it.
    body = widgets.make("b", {"size": 9})
    await api.poll(widgets.path(), lambda answer: answer.code == 422, body, dryRun="All")
    kept = (await api.patch(f"{widgets.path()}/a", {"spec": {"colour": "green"}})).expect(200)
    assert kept["spec"] == {"size": 9, "colour": "green"}
    (await api.patch(f"{widgets.path()}/a", {"spec": {"size": 8}})).expect(422)
