from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import pytest

from kube_fairlead_apiserver.crd import definition, validation

RECORDED = pathlib.Path(__file__).parent / "testdata" / "validation.jsonl"
SCHEMA = "spec.validation.openAPIV3Schema"


def _crd(properties: dict[str, Any] | None = None, *, root: dict[str, Any] | None = None, **version: Any) -> Any:
    schema = {"type": "object", "properties": properties or {}, **(root or {})}
    crd = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
            ],
        },
        "status": {},
    }
    definition.set_defaults(crd)
    return crd


def _errors(crd: Any, old: Any = None, *, webhooks: bool = True) -> list[str]:
    if old is None:
        return [str(error) for error in validation.validate_create(crd, webhooks=webhooks)]
    return [str(error) for error in validation.validate_update(crd, old, webhooks=webhooks)]


@pytest.mark.parametrize("line", RECORDED.read_text().splitlines())
def test_errors_are_those_that_kubernetes_gave(line: str) -> None:
    """Recorded from k8s.io/apiextensions-apiserver v0.36.4 for random definitions and updates."""
    case = json.loads(line)
    for crd in (case["crd"], case.get("old")):
        if crd is not None:
            crd.setdefault("status", {})
            definition.set_defaults(crd)
            crd["status"]["storedVersions"] = crd["status"]["storedVersions"] or None
    assert sorted(_errors(case["crd"], case.get("old"))) == case["errors"]


def test_a_plain_definition_is_accepted() -> None:
    assert _errors(_crd({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})) == []


def test_webhook_conversion_is_refused_where_nothing_can_ask_a_webhook() -> None:
    crd = _crd()
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}},
    }
    assert _errors(crd) == []
    assert _errors(crd, webhooks=False) == [
        'spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"'
    ]


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ({"rule": "self == 'x'"}, []),
        ({"rule": ""}, [".rule: Required value: rule is not specified"]),
        ({"rule": "a\nb"}, [".message: Required value: message must be specified if rule contains line breaks"]),
        ({"rule": "true", "message": " "}, ['.message: Invalid value: " ": must be non-empty if specified']),
        ({"rule": "true", "message": "a\nb"}, ['.message: Invalid value: "a\\nb": must not contain line breaks']),
        (
            {"rule": "true", "messageExpression": " "},
            [".messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            {"rule": "true", "reason": "Why"},
            [
                (
                    '.reason: Unsupported value: "Why": supported values: "FieldValueDuplicate", '
                    '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
                )
            ],
        ),
        ({"rule": "true", "fieldPath": ".x"}, ['.fieldPath: Invalid value: ".x": must be a valid path']),
        (
            {"rule": "self.size() > foo"},
            [
                (
                    '.rule: Invalid value: {"Rule":"self.size() \\u003e foo","Message":"","MessageExpression":"",'
                    '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
                    "ERROR: <input>:1:15: undeclared reference to 'foo' (in container '')\n"
                    " | self.size() > foo\n"
                    " | ..............^"
                )
            ],
        ),
        (
            {"rule": "self"},
            [
                (
                    '.rule: Invalid value: {"Rule":"self","Message":"","MessageExpression":"","Reason":null,'
                    '"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool'
                )
            ],
        ),
        (
            {"rule": "self == 'x'", "messageExpression": "1"},
            [
                (
                    '.messageExpression: Invalid value: {"Rule":"self == \'x\'","Message":"",'
                    '"MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
                    "messageExpression must evaluate to a string"
                )
            ],
        ),
        (
            {"rule": "self == 'x'", "optionalOldSelf": True},
            [".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
    ],
)
def test_rules_are_compiled_before_any_object_exists(rule: dict[str, Any], errors: list[str]) -> None:
    crd = _crd({"x": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [rule]}})
    where = f"{SCHEMA}.properties[x].x-kubernetes-validations[0]"
    assert _errors(crd) == [f"{where}{error}" for error in errors]


def test_a_transition_rule_needs_items_that_pair() -> None:
    item = {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    crd = _crd({"l": {"type": "array", "maxItems": 5, "items": item}})
    assert _errors(crd) == [
        (
            f"{SCHEMA}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "
            '"self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within '
            f"{SCHEMA}.properties[l]"
        )
    ]


@pytest.mark.parametrize(
    ("default", "errors"),
    [
        ("a", []),
        (5, ['Invalid value: "integer":  in body must be of type string: "integer"']),
        ("abc", ["Too long: may not be more than 2 bytes"]),
        ("b", ["Invalid value: \"b\": failed rule: self != 'b'"]),
    ],
)
def test_a_default_must_be_valid_itself(default: Any, errors: list[str]) -> None:
    rule = {"rule": "self != 'b'"}
    crd = _crd({"x": {"type": "string", "maxLength": 2, "default": default, "x-kubernetes-validations": [rule]}})
    assert _errors(crd) == [f"{SCHEMA}.properties[x].default: {error}" for error in errors]


def test_a_default_inside_metadata_must_make_valid_metadata() -> None:
    def crd(default: Any) -> Any:
        name = {"type": "string", "default": default}
        resource = {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {"type": "object", "properties": {"name": name}}},
        }
        return _crd({"e": resource})

    assert _errors(crd("fine")) == []
    where = f"{SCHEMA}.properties[e].properties[metadata].properties[name].default"
    assert _errors(crd("a/b")) == [
        (
            f'{where}: Invalid value: "a/b": must result in valid metadata: '
            "metadata.name: Invalid value: \"a/b\": may not contain '/'"
        )
    ]


def test_versions_that_agree_are_reported_once_and_others_each() -> None:
    crd = _crd({"x": {}})
    second = {**copy.deepcopy(crd["spec"]["versions"][0]), "name": "v2", "storage": False}
    crd["spec"]["versions"].append(second)
    problem = "type: Required value: must not be empty for specified object fields"
    assert _errors(crd) == [f"{SCHEMA}.properties[x].{problem}"]
    second["schema"]["openAPIV3Schema"]["description"] = "other"
    assert _errors(crd) == [
        f"spec.versions[{index}].schema.openAPIV3Schema.properties[x].{problem}" for index in (0, 1)
    ]


def test_what_decides_about_storage_never_changes() -> None:
    old = _crd()
    new = copy.deepcopy(old)
    new["spec"]["group"] = "other.com"
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Bar"
    assert _errors(new, old) == ['spec.group: Invalid value: "other.com": field is immutable']
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    assert _errors(new, old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Bar": field is immutable',
        'spec.group: Invalid value: "other.com": field is immutable',
    ]


def test_a_version_with_stored_objects_cannot_go() -> None:
    old = _crd()
    new = _crd(name="v2")
    new["status"]["storedVersions"] = ["v1", "v2"]
    assert _errors(new, old) == [
        (
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
            "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "
            "v1 and removes v1 from status.storedVersions"
        )
    ]


def test_an_update_is_not_blamed_for_what_was_stored() -> None:
    granular = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}
    broken = _crd({"s": granular})
    assert len(_errors(broken)) == 1
    assert _errors(_crd({"s": granular, "t": {"type": "string"}}), broken) == []
    assert len(_errors(broken, _crd())) == 1


def test_formats_that_mean_nothing_are_named() -> None:
    crd = _crd({"a": {"type": "string", "format": "speed"}, "b": {"type": "integer", "format": "int32"}})
    assert validation.unrecognized_formats(crd) == ["speed"]


ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
    "where arrays, maps, and strings are declared)"
)


def test_a_rule_that_could_cost_too_much_is_refused_with_advice() -> None:
    item = {"type": "string", "x-kubernetes-validations": [{"rule": "self.contains('x')"}]}
    crd = _crd({"l": {"type": "array", "items": item}})
    where = f"{SCHEMA}.properties[l].items.x-kubernetes-validations[0].rule"
    assert _errors(crd) == [
        f"{where}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}",
        (
            f"{where}: Forbidden: contributed to estimated rule cost total exceeding cost limit "
            "for entire OpenAPIv3 schema"
        ),
        (
            f"{SCHEMA}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
            f"exceeds budget by factor of more than 100x {ADVICE}"
        ),
    ]
    bounded = _crd({"l": {"type": "array", "maxItems": 100, "items": {**item, "maxLength": 100}}})
    assert _errors(bounded) == []


def test_a_stored_rule_may_stay_expensive_while_its_schema_stays() -> None:
    item = {"type": "string", "maxLength": 3000, "x-kubernetes-validations": [{"rule": "self.matches('aaaaaaaaaa')"}]}
    expensive = _crd({"l": {"type": "array", "maxItems": 4000, "items": item}})
    (error,) = _errors(expensive)
    assert "estimated rule cost exceeds budget by factor of 1.441600x" in error
    assert _errors(copy.deepcopy(expensive), expensive) == []
    changed = copy.deepcopy(expensive)
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "new"
    assert _errors(changed, expensive) == [error]


def test_a_message_that_could_cost_too_much_is_refused() -> None:
    rule = {"rule": "self == 'x'", "messageExpression": f"self.matches('^{'a' * 144}*$') ? 'a' : 'b'"}
    (error,) = _errors(_crd({"x": {"type": "string", "x-kubernetes-validations": [rule]}}))
    words = "messageExpression: Forbidden: estimated messageExpression cost exceeds budget by factor of 1.163920x"
    assert words in error
