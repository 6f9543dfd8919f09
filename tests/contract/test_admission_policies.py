"""ValidatingAdmissionPolicies: CEL that guards writes, with parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
Json = dict[str, Any]
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
async def enforce(
    api: RawApi, namespace: str, path: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Callable[..., Any]]:
    """Make a policy and its binding for the test's namespace; wait until the probe is refused."""
    made: list[str] = []

    async def enforce(validations: list[Json], *, probe: Json, binding: Json | None = None, **spec: Any) -> str:
        name = unique_name("policy")
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": RULES},
            "validations": validations,
            **spec,
        }
        selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector, **(binding or {})}
        for resource, body in (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", bound)):
            (await api.post(f"{REGISTRATION}/{resource}", {"metadata": {"name": name}, "spec": body})).expect(201)
            made.append(f"{REGISTRATION}/{resource}/{name}")
        await api.poll(path, lambda answer: answer.code != 201 or "Warning" in answer.headers, probe, dryRun="All")
        return name

    yield enforce
    for resource in reversed(made):
        (await api.delete(resource)).expect(200)


async def test_a_refusal(api: RawApi, enforce: Any, path: str) -> None:
    rule = {"expression": "object.metadata.name.startsWith('good')", "message": "only good names"}
    name = await enforce([rule], probe=config_map("bad"))
    status = (await api.post(path, config_map("bad"))).expect(422)
    assert status["reason"] == "Invalid"
    assert status["message"] == (
        f"configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "
        "only good names"
    )
    assert status["details"]["causes"] == [
        {
            "message": f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: only good names",
        }
    ]
    (await api.post(path, config_map("good"))).expect(201)


async def test_reason_and_computed_message(api: RawApi, enforce: Any, path: str) -> None:
    rule = {
        "expression": "object.metadata.name != 'bad'",
        "messageExpression": "'no ' + object.metadata.name",
        "reason": "Forbidden",
    }
    await enforce([rule], probe=config_map("bad"))
    status = (await api.post(path, config_map("bad"))).expect(403)
    assert status["reason"] == "Forbidden"
    assert status["message"].endswith("denied request: no bad")


async def test_without_a_message_the_expression_is_said(api: RawApi, enforce: Any, path: str) -> None:
    await enforce([{"expression": "object.metadata.name != 'bad'"}], probe=config_map("bad"))
    status = (await api.post(path, config_map("bad"))).expect(422)
    assert status["message"].endswith("denied request: failed expression: object.metadata.name != 'bad'")


async def test_old_and_new_and_who(api: RawApi, enforce: Any, path: str) -> None:
    rule = {
        "expression": "oldObject == null || object.data == oldObject.data || request.userInfo.username == 'boss'",
        "message": "only the boss changes data",
    }
    probe_rule = {"expression": "object.metadata.name != 'probe'"}
    await enforce([rule, probe_rule], probe=config_map("probe"))
    (await api.post(path, config_map("a", {"k": "1"}))).expect(201)
    (await api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})).expect(200)
    (await api.patch(f"{path}/a", {"data": {"k": "2"}})).expect(422)


async def test_parameters(api: RawApi, enforce: Any, path: str, namespace: str) -> None:
    """A Lease as the parameter: what the fence of leader election stands on."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    (await api.post(leases, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "one"}})).expect(201)
    rule = {
        "expression": "has(object.data) && object.data.writer == params.spec.holderIdentity",
        "message": "not the holder",
    }
    reference = {"name": "lock", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    await enforce(
        [rule],
        probe=config_map("probe", {"writer": "nobody"}),
        binding={"paramRef": reference},
        paramKind={"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
    )
    one = config_map("a", {"writer": "one"})
    await api.poll(path, lambda answer: answer.code == 201, one, dryRun="All")
    (await api.patch(f"{leases}/lock", {"spec": {"holderIdentity": "two"}})).expect(200)
    await api.poll(path, lambda answer: answer.code == 422, one, dryRun="All")
    await api.poll(path, lambda answer: answer.code == 201, config_map("a", {"writer": "two"}), dryRun="All")


async def test_warn_instead_of_deny(api: RawApi, enforce: Any, path: str) -> None:
    rule = {"expression": "object.metadata.name != 'bad'", "message": "bad name"}
    name = await enforce([rule], probe=config_map("bad"), binding={"validationActions": ["Warn"]})
    answer = await api.post(path, config_map("bad"))
    answer.expect(201)
    assert answer.headers["Warning"] == (
        f"299 - \"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': bad name\""
    )


async def test_variables_and_conditions(api: RawApi, enforce: Any, path: str) -> None:
    await enforce(
        [{"expression": "variables.size < 3", "message": "too much data"}],
        probe=config_map("probe", {"a": "", "b": "", "c": ""}),
        variables=[{"name": "size", "expression": "has(object.data) ? object.data.size() : 0"}],
        matchConditions=[{"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt')"}],
    )
    big = {"a": "", "b": "", "c": ""}
    (await api.post(path, config_map("big", big))).expect(422)
    (await api.post(path, config_map("exempt-big", big))).expect(201)
    (await api.post(path, config_map("small", {"a": ""}))).expect(201)


async def test_an_expression_that_fails(api: RawApi, enforce: Any, path: str) -> None:
    rule = {"expression": "object.data.missing == 'x'"}
    await enforce([rule], probe=config_map("bad"))
    status = (await api.post(path, config_map("bad"))).expect(422)
    assert "resulted in error: no such key: data" in status["message"]


async def test_a_policy_that_does_not_compile(api: RawApi) -> None:
    spec = {"matchConstraints": {"resourceRules": RULES}, "validations": [{"expression": "object.metadata."}]}
    body = {"metadata": {"name": "broken"}, "spec": spec}
    status = (await api.post(f"{REGISTRATION}/validatingadmissionpolicies", body)).expect(422)
    cause = status["details"]["causes"][0]
    assert cause["field"] == "spec.validations[0].expression"
    assert "Syntax error" in cause["message"]
