from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.admission.validation.policies import validate_binding, validate_policy
from kube_fairlead_apiserver.registry.strategies.admission import PolicyBindingStrategy, PolicyStrategy
from tests.unit.admission.policies.manifests import binding, policy, rule

Json = dict[str, Any]
TRUE = {"expression": "true"}


def problems(*validations: Json, **spec: Any) -> list[str]:
    obj = policy("x", *(validations or (TRUE,)), **spec)
    PolicyStrategy().default(obj)
    return [str(problem) for problem in validate_policy(obj)]


def test_a_good_one_passes() -> None:
    assert problems() == []
    assert (
        problems(
            {"expression": "variables.big && params.spec.x == 1", "messageExpression": "'no ' + string(variables.n)"},
            variables=[
                {"name": "n", "expression": "size(object.data)"},
                {"name": "big", "expression": "variables.n > 3"},
            ],
            paramKind={"apiVersion": "rules.example.com/v1", "kind": "Palette"},
            matchConditions=[
                {"name": "a", "expression": "params != null && authorizer.path('/x').check('get').allowed()"}
            ],
            auditAnnotations=[{"key": "n", "valueExpression": "string(variables.n)"}],
        )
        == []
    )


UNDECLARED = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"


@pytest.mark.parametrize(
    ("validation", "problem"),
    [
        ({"expression": " "}, "spec.validations[0].expression: Required value: expression is not specified"),
        ({"expression": "nope"}, f'spec.validations[0].expression: Invalid value: "nope": {UNDECLARED}'),
        (
            {"expression": "object.spec"},
            'spec.validations[0].expression: Invalid value: "object.spec": must evaluate to bool but got dyn',
        ),
        (
            {"expression": "params == null"},
            (
                'spec.validations[0].expression: Invalid value: "params == null": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params == null\n | ^"
            ),
        ),
        (
            {"expression": "true", "messageExpression": "1"},
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
        ),
        (
            {"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"},
            (
                "spec.validations[0].messageExpression: Invalid value: "
                "\"authorizer.path('/').check('get').reason()\": compilation failed: "
                "ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n"
                " | authorizer.path('/').check('get').reason()\n | ^"
            ),
        ),
        (
            {"expression": "true", "messageExpression": " "},
            'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
        ),
        (
            {"expression": "true", "message": "a\nb"},
            'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"expression": "true", "reason": "Unauthorized"},
            (
                'spec.validations[0].reason: Unsupported value: "Unauthorized": '
                'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'
            ),
        ),
    ],
)
def test_a_wrong_validation_is_named(validation: Json, problem: str) -> None:
    assert problem in problems(validation)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"failurePolicy": "Maybe"},
            'spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        ),
        ({"matchConstraints": None}, "spec.matchConstraints: Required value"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
        (
            {"matchConstraints": {"resourceRules": [rule(resourceNames=["a", "a"])]}},
            'spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
        ),
        ({"paramKind": {"apiVersion": "v1"}}, "spec.paramKind.kind: Required value"),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "X"}},
            'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        (
            {"variables": [{"name": "in", "expression": "1"}]},
            'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier',
        ),
        (
            {"variables": [{"name": "a", "expression": "nope"}]},
            f'spec.variables[0].expression: Invalid value: "nope": {UNDECLARED}',
        ),
        (
            {"validations": []},
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            (
                'spec.auditAnnotations[0].valueExpression: Invalid value: "1": '
                "must evaluate to one of [string null_type] but got int"
            ),
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
            'spec.auditAnnotations[1].key: Duplicate value: "a"',
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "variables.x"}]},
            (
                'spec.matchConditions[0].expression: Invalid value: "variables.x": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^"
            ),
        ),
    ],
)
def test_a_wrong_spec_is_named(spec: Json, problem: str) -> None:
    assert problem in problems(**spec)


def test_match_conditions_that_did_not_change_are_left_alone() -> None:
    obj = policy("x", TRUE, matchConditions=[{"name": "a", "expression": "nope"}])
    PolicyStrategy().default(obj)
    assert validate_policy(obj)
    assert validate_policy(obj, obj) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"policyName": ""}, "spec.policyName: Required value"),
        (
            {"validationActions": []},
            "spec.validationActions: Required value: at least one validation action is required",
        ),
        (
            {"validationActions": ["Shout"]},
            'spec.validationActions[0]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"',
        ),
        ({"validationActions": ["Deny", "Deny"]}, 'spec.validationActions[1]: Duplicate value: "Deny"'),
        (
            {"validationActions": ["Deny", "Warn"]},
            (
                'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn '
                "(repeating the same validation failure information in the API response and headers serves no purpose)"
            ),
        ),
        ({"paramRef": {}}, "spec.paramRef: Required value: one of name or selector must be specified"),
        ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction: Required value"),
        (
            {"paramRef": {"name": "a", "parameterNotFoundAction": "Cry"}},
            'spec.paramRef.parameterNotFoundAction: Unsupported value: "Cry": supported values: "Deny", "Allow"',
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        ),
    ],
)
def test_a_wrong_binding_is_named(spec: Json, problem: str) -> None:
    obj = binding("b", "x", **{key: value for key, value in spec.items() if key != "policyName"})
    obj["spec"].update(spec)
    PolicyBindingStrategy().default(obj)
    assert problem in [str(one) for one in validate_binding(obj)]


def test_a_good_binding_passes() -> None:
    reference = {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Allow"}
    obj = binding("b", "x", paramRef=reference, matchResources={"resourceRules": [rule()]})
    PolicyBindingStrategy().default(obj)
    assert validate_binding(obj) == []
