from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.admission.validation.webhook_configurations import validate_webhook_configuration
from tests.unit.admission.hookserver import configuration, webhook

URL = {"url": "https://example.com/check"}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def problems(client: Any = None, **fields: Any) -> list[str]:
    hook = webhook("check.example.com", client or URL, **fields)
    return [str(problem) for problem in validate_webhook_configuration(configuration("Mutating", "x", hook))]


def test_a_good_one_passes() -> None:
    assert problems() == []
    assert problems({"service": {"name": "a", "namespace": "b", "path": "/x/y", "port": 8443}}) == []
    assert problems(matchConditions=[{"name": "a", "expression": "request.name != 'x'"}], timeoutSeconds=30) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, "webhooks[0].name: Required value"),
        (
            {"name": "short.name"},
            (
                'webhooks[0].name: Invalid value: "short.name": '
                "should be a domain with at least three segments separated by dots"
            ),
        ),
        ({"sideEffects": None}, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        (
            {"sideEffects": "Some"},
            'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
        ),
        (
            {"failurePolicy": "Maybe"},
            'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        ),
        (
            {"matchPolicy": "Fuzzy"},
            'webhooks[0].matchPolicy: Unsupported value: "Fuzzy": supported values: "Equivalent", "Exact"',
        ),
        (
            {"reinvocationPolicy": "Often"},
            'webhooks[0].reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"',
        ),
        (
            {"timeoutSeconds": 31},
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            {"admissionReviewVersions": []},
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            {"admissionReviewVersions": ["v7"]},
            'webhooks[0].admissionReviewVersions: Invalid value: ["v7"]: must include at least one of v1, v1beta1',
        ),
        (
            {"admissionReviewVersions": ["v1", "v1"]},
            'webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version',
        ),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            (
                'webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: "Like": '
                "not a valid selector operator"
            ),
        ),
        ({"rules": [{**RULE, "operations": []}]}, "webhooks[0].rules[0].operations: Required value"),
        (
            {"rules": [{**RULE, "operations": ["PATCH"]}]},
            (
                'webhooks[0].rules[0].operations[0]: Unsupported value: "PATCH": '
                'supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'
            ),
        ),
        (
            {"rules": [{**RULE, "apiGroups": ["*", "apps"]}]},
            (
                'webhooks[0].rules[0].apiGroups: Invalid value: ["*","apps"]: '
                "if '*' is present, must not specify other API groups"
            ),
        ),
        ({"rules": [{**RULE, "apiVersions": [""]}]}, "webhooks[0].rules[0].apiVersions[0]: Required value"),
        ({"rules": [{**RULE, "resources": []}]}, "webhooks[0].rules[0].resources: Required value"),
        (
            {"rules": [{**RULE, "resources": ["pods/*", "pods/status"]}]},
            (
                'webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": '
                "if 'pods/*' is present, must not specify pods/status"
            ),
        ),
        (
            {"rules": [{**RULE, "resources": ["*/*", "pods"]}]},
            (
                'webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: '
                "if '*/*' is present, must not specify other resources"
            ),
        ),
        (
            {"rules": [{**RULE, "resources": ["*", "pods"]}]},
            (
                'webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: '
                "if '*' is present, must not specify other resources without subresources"
            ),
        ),
        (
            {"rules": [{**RULE, "scope": "Galaxy"}]},
            'webhooks[0].rules[0].scope: Unsupported value: "Galaxy": supported values: "*", "Cluster", "Namespaced"',
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "params != null"}]},
            (
                'webhooks[0].matchConditions[0].expression: Invalid value: "params != null": '
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n"
                " | params != null\n | ^"
            ),
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "1"}]},
            'webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
        ),
        (
            {"matchConditions": [{"name": "", "expression": ""}]},
            "webhooks[0].matchConditions[0].expression: Required value",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], problem: str) -> None:
    assert problem in problems(**fields)


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        ({}, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
        (
            {"url": "http://example.com"},
            (
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                "desired format: https://host[/path]"
            ),
        ),
        (
            {"url": "https:///x"},
            (
                'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; '
                "desired format: https://host[/path]"
            ),
        ),
        (
            {"url": "https://u:p@example.com"},
            'webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL',
        ),
        (
            {"url": "https://example.com/x?y=z"},
            'webhooks[0].clientConfig.url: Invalid value: "y=z": query parameters are not permitted in the URL',
        ),
        (
            {"url": "https://example.com/x#y"},
            'webhooks[0].clientConfig.url: Invalid value: "y": fragments are not permitted in the URL',
        ),
        ({"service": {"namespace": "b"}}, "webhooks[0].clientConfig.service.name: Required value"),
        (
            {"service": {"name": "a", "namespace": "b", "port": 0}},
            (
                "webhooks[0].clientConfig.service.port: Invalid value: 0: "
                "port is not valid: must be between 1 and 65535, inclusive"
            ),
        ),
        (
            {"service": {"name": "a", "namespace": "b", "path": "x"}},
            "webhooks[0].clientConfig.service.path: Invalid value: \"x\": must start with a '/'",
        ),
        (
            {"service": {"name": "a", "namespace": "b", "path": "/x//y"}},
            'webhooks[0].clientConfig.service.path: Invalid value: "/x//y": segment[1] may not be empty',
        ),
    ],
)
def test_so_is_what_is_wrong_with_its_address(client: dict[str, Any], problem: str) -> None:
    hook = webhook("check.example.com", client)
    found = [str(one) for one in validate_webhook_configuration(configuration("Validating", "x", hook))]
    assert problem in found


def test_names_are_unique_in_a_configuration() -> None:
    hook = webhook("check.example.com", URL)
    found = validate_webhook_configuration(configuration("Validating", "x", hook, hook))
    assert [str(problem) for problem in found] == ['webhooks[1].name: Duplicate value: "check.example.com"']


def test_what_was_accepted_once_may_stay() -> None:
    old = configuration("Validating", "x", webhook("check.example.com", URL, sideEffects="Unknown"))
    new = configuration("Validating", "x", webhook("check.example.com", URL, sideEffects="Some"))
    assert validate_webhook_configuration(new)
    assert validate_webhook_configuration(new, old) == []
