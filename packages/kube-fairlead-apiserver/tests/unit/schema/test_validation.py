from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.schema import detailed_validation, fast_validation, list_uniqueness, validation
from kube_fairlead_apiserver.schema.correlation import CorrelatedValue
from kube_fairlead_apiserver.schema.model import compile_schema

RECORDED = pathlib.Path(__file__).parent / "testdata" / "validation.jsonl"


def _errors(schema: dict[str, Any], value: Any, **old: Any) -> list[str]:
    return [str(error) for error in validation.validate(compile_schema(schema), value, **old)]


def _spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({"type": "integer"}, "a", ['Invalid value: "string": spec.x in body must be of type integer: "string"']),
        ({"type": "integer"}, True, ['Invalid value: "boolean": spec.x in body must be of type integer: "boolean"']),
        ({"type": "integer"}, 1.0, []),
        ({"type": "number"}, 1, []),
        ({"type": "string"}, None, ['Invalid value: "null": spec.x in body must be of type string: "null"']),
        ({"type": "string", "nullable": True}, None, []),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            ['Invalid value: "number": spec.x in body must be of type integer,string: "number"'],
        ),
        ({"x-kubernetes-int-or-string": True}, "50%", []),
        ({"type": "string", "enum": ["a", "b"]}, "c", ['Unsupported value: "c": supported values: "a", "b"']),
        ({"type": "integer", "enum": [1, 2]}, 3, ['Unsupported value: 3: supported values: "1", "2"']),
        (
            {"type": "string", "nullable": True, "enum": ["a", None]},
            None,
            ['Unsupported value: null: supported values: "a", "null"'],
        ),
        (
            {"type": "integer", "minimum": 1},
            0,
            ["Invalid value: 0: spec.x in body should be greater than or equal to 1"],
        ),
        (
            {"type": "number", "maximum": 1000000, "exclusiveMaximum": True},
            2000000.7,
            ["Invalid value: 2.0000007e+06: spec.x in body should be less than 1e+06"],
        ),
        ({"type": "integer", "multipleOf": 3}, 4, ["Invalid value: 4: spec.x in body should be a multiple of 3"]),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        ({"type": "string", "maxLength": 2}, "abc", ["Too long: may not be more than 2 bytes"]),
        ({"type": "string", "maxLength": 2}, "éé", []),
        (
            {"type": "string", "minLength": 2},
            "a",
            ['Invalid value: "a": spec.x in body should be at least 2 chars long'],
        ),
        ({"type": "string", "pattern": "^a+$"}, "b", ["Invalid value: \"b\": spec.x in body should match '^a+$'"]),
        (
            {"type": "string", "format": "date-time"},
            "now",
            ['Invalid value: "now": spec.x in body must be of type date-time: "now"'],
        ),
        ({"type": "string", "format": "unheard-of"}, "x", []),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            ["Too many: 2: must have at most 1 item"],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            ["Invalid value: 0: spec.x in body should have at least 1 items"],
        ),
        ({"type": "object", "maxProperties": 0}, {"a": 1}, ["Too many: 1: must have at most 0 items"]),
        (
            {"type": "object", "minProperties": 1},
            {},
            ["Invalid value: 0: spec.x in body should have at least 1 properties"],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
            [1, 2, 1],
            ['Invalid value: "": spec.x in body shouldn\'t contain duplicates'],
        ),
    ],
)
def test_each_rule_has_kubernetes_words(schema: dict[str, Any], value: Any, errors: list[str]) -> None:
    assert _errors(_spec(schema), {"spec": {"x": value}}) == [f"spec.x: {error}" for error in errors]


def test_paths_reach_into_lists_and_maps() -> None:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "l": {"type": "array", "items": {"type": "object", "required": ["n"]}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    assert _errors(schema, {"l": [{"n": 1}, {}], "m": {"k.x": "v"}}) == [
        "l[1].n: Required value",
        'm.k.x: Invalid value: "string": m.k.x in body must be of type integer: "string"',
        "spec: Required value",
    ]


def test_a_base_path_leads_every_field_but_not_the_words() -> None:
    node = compile_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["r"]})
    assert [str(error) for error in validation.validate(node, {"n": "x"}, FieldPath("status"))] == [
        'status.n: Invalid value: "string": n in body must be of type integer: "string"',
        "status.r: Required value",
    ]


@pytest.mark.parametrize(
    ("junctors", "errors"),
    [
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [
                '<nil>: Invalid value: "": "" must validate one and only one schema (oneOf). Found none valid',
                "a: Required value",
            ],
        ),
        (
            {"oneOf": [{"required": ["c"]}, {}]},
            ['<nil>: Invalid value: "": "" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["c"], "properties": {"c": {"minimum": 5}}}]},
            [
                '<nil>: Invalid value: "": "" must validate at least one schema (anyOf)',
                "c: Invalid value: 1: c in body should be greater than or equal to 5",
            ],
        ),
        (
            {"allOf": [{"required": ["a"]}, {}]},
            ["a: Required value", '<nil>: Invalid value: "": "" must validate all the schemas (allOf)'],
        ),
        ({"not": {"required": ["c"]}}, ['<nil>: Invalid value: "": "" must not validate the schema (not)']),
    ],
)
def test_junctors_explain_the_alternative_that_came_closest(junctors: dict[str, Any], errors: list[str]) -> None:
    assert _errors({"type": "object", "properties": {"c": {"type": "integer"}}, **junctors}, {"c": 1}) == errors


@pytest.mark.parametrize("line", RECORDED.read_text().splitlines())
def test_errors_are_those_that_kubernetes_gave(line: str) -> None:
    """Recorded from k8s.io/apiextensions-apiserver v0.36.4 for random schemas, values and updates."""
    case = json.loads(line)
    node = compile_schema(case["schema"])
    pair = CorrelatedValue(node, case["value"], case["old"]) if "old" in case else None
    errors = validation.validate_schema(node, case["value"], FieldPath(), pair)
    assert sorted({str(error) for error in errors}) == case["errors"]
    assert sorted(map(str, list_uniqueness.validate_lists(node, case["value"]))) == case["listErrors"]


NAMED = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 5},
        "m": {"type": "integer"},
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "v": {"type": "string", "maxLength": 1}},
            },
        },
        "a": {"type": "array", "items": {"type": "integer", "maximum": 3}},
    },
}


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        pytest.param({"n": 1}, {"n": 1, "m": 2}, [], id="unchanged-field-is-excused"),
        pytest.param({"n": 1}, {"n": 2}, ["n"], id="changed-field-is-not"),
        pytest.param({"n": 1}, {"n": 1, "a": [9]}, ["a[0]"], id="only-new-mistakes"),
        pytest.param(
            {"l": [{"name": "x", "v": "long"}, {"name": "y"}]},
            {"l": [{"name": "y", "v": "long"}, {"name": "x", "v": "long"}]},
            ["l[0].v"],
            id="items-of-a-map-list-pair-by-key",
        ),
        pytest.param({"a": [9, 1]}, {"a": [9, 2]}, ["a[0]"], id="items-of-an-atomic-list-do-not-pair"),
        pytest.param({"a": [9, 1]}, {"a": [9, 1], "m": 1}, [], id="an-unchanged-atomic-list-does"),
    ],
)
def test_what_an_update_leaves_alone_is_excused(old: Any, new: Any, wrong: list[str]) -> None:
    errors = validation.validate(compile_schema(NAMED), new, old=old)
    assert [error.field for error in errors] == wrong


def test_lists_with_old_duplicates_may_keep_them() -> None:
    schema = {"type": "object", "properties": {"s": {"type": "array", "x-kubernetes-list-type": "set"}}}
    assert _errors(schema, {"s": ["a", "b", "a", "a"]}) == ['s[2]: Duplicate value: "a"']
    assert _errors(schema, {"s": ["b", "b"]}, old={"s": ["a", "a"]}) == []
    assert _errors(schema, {"s": ["b", "b"]}, old={"s": ["a"]}) == ['s[1]: Duplicate value: "b"']


def test_a_wrong_shape_blocks_the_rules() -> None:
    node = compile_schema({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
    assert validation.blocks_rules(validation.validate(node, {"n": 0})) is None
    blocked = validation.blocks_rules(validation.validate(node, {"n": "x"}))
    assert str(blocked) == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 8)
    | st.sampled_from([-0.5, 0.5, 1.5, 4.5])
    | st.sampled_from(["", "a", "ab", "abc", "2020-01-01"])
)
_names = st.sampled_from(["a", "b", "c"])
_values = st.recursive(
    _scalars, lambda children: st.lists(children, max_size=3) | st.dictionaries(_names, children, max_size=3)
)
_limits = st.integers(0, 3)
_rules: dict[str, st.SearchStrategy[Any]] = {
    "maxLength": _limits,
    "minLength": _limits,
    "pattern": st.sampled_from(["^a", "b$", "^[ab]*$"]),
    "minimum": _limits,
    "maximum": _limits,
    "multipleOf": st.sampled_from([1, 2, 3]),
    "maxItems": _limits,
    "minItems": _limits,
    "uniqueItems": st.booleans(),
    "maxProperties": _limits,
    "minProperties": _limits,
    "required": st.lists(_names, max_size=2, unique=True),
}
_types = st.sampled_from(["object", "array", "string", "integer", "number", "boolean"])


def _schema(children: st.SearchStrategy[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(children, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _types,
            **_rules,
            "properties": st.dictionaries(_names, children, max_size=2),
            "additionalProperties": children,
            "items": children,
            "allOf": parts,
            "anyOf": parts,
            "oneOf": parts,
            "not": children,
            **more,
        },
    )


_plain = st.recursive(st.fixed_dictionaries({}, optional={"type": _types, **_rules}), _schema, max_leaves=6)
_kubernetes = st.recursive(
    st.fixed_dictionaries({}, optional={"type": _types, "nullable": st.booleans(), **_rules}),
    lambda children: _schema(
        children,
        **{
            "nullable": st.booleans(),
            "format": st.sampled_from(["date", "int32", "other"]),
            "enum": st.lists(_scalars, min_size=1, max_size=2),
            "exclusiveMinimum": st.booleans(),
            "x-kubernetes-int-or-string": st.booleans(),
        },
    ),
    max_leaves=6,
)


@given(_kubernetes, _values)
def test_the_fast_check_and_the_explanation_agree(schema: dict[str, Any], value: Any) -> None:
    node = compile_schema(schema)
    assert fast_validation.checker(node)(value) == (
        not detailed_validation.explain(node, "", value, FieldPath()).errors
    )


@given(_plain, _values)
def test_plain_json_schema_means_what_json_schema_says(schema: dict[str, Any], value: Any) -> None:
    reference = {"$schema": "http://json-schema.org/draft-07/schema#", **_with_null(schema)}
    assert fast_validation.checker(compile_schema(schema))(value) == jsonschema_rs.is_valid(reference, value)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Kubernetes asks a null nothing but its type, so no other rule may see one."""
    inner = {
        key: {name: _with_null(part) for name, part in rule.items()}
        if key == "properties"
        else [_with_null(part) for part in rule]
        if key in {"allOf", "anyOf", "oneOf"}
        else _with_null(rule)
        if key in {"items", "additionalProperties", "not"}
        else rule
        for key, rule in schema.items()
    }
    return inner if "type" in inner else {"anyOf": [{"type": "null"}, inner]}
