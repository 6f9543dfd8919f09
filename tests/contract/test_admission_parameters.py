"""Parameters of policies that come, change and go while the policy stands: custom resources, by name and by label."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Define, Defined

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
Json = dict[str, Any]
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


@pytest.fixture
async def limits(define: Define) -> Defined:
    return await define(kind="Limit", shared=True)


@pytest.fixture
async def bind(
    api: RawApi, limits: Defined, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Callable[..., Any]]:
    """A policy that limits the size of config maps, bound to the limits that a reference names."""
    made: list[str] = []

    async def bind(reference: Json) -> None:
        name = unique_name("limits")
        policy = {
            "paramKind": {"apiVersion": f"{limits.group}/v1", "kind": limits.kind},
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [
                {
                    "expression": "size(object.data) <= params.spec.max",
                    "messageExpression": "'at most ' + string(params.spec.max)",
                }
            ],
        }
        bound = {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
            "paramRef": {"parameterNotFoundAction": "Deny", **reference},
        }
        for resource, body in (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", bound)):
            (await api.post(f"{REGISTRATION}/{resource}", {"metadata": {"name": name}, "spec": body})).expect(201)
            made.append(f"{REGISTRATION}/{resource}/{name}")

    yield bind
    for resource in reversed(made):
        (await api.delete(resource)).expect(200)


async def until(api: RawApi, namespace: str, size: int, message: str | None) -> None:
    """Until a config map of this size is accepted (None), or refused with this message."""
    probe = config_map("probe", {f"k{number}": "" for number in range(size)})

    def wanted(answer: Any) -> bool:
        return bool(answer.code == 201 if message is None else answer.code == 422 and message in answer.text)

    await api.poll(f"/api/v1/namespaces/{namespace}/configmaps", wanted, probe, dryRun="All")


async def test_a_custom_resource_by_name(api: RawApi, limits: Defined, bind: Any, namespace: str) -> None:
    await bind({"name": "limit"})
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    await until(api, namespace, 1, missing)
    (await api.post(limits.path(), limits.make("limit", {"max": 2}))).expect(201)
    await until(api, namespace, 3, "denied request: at most 2")
    await until(api, namespace, 2, None)
    (await api.patch(f"{limits.path()}/limit", {"spec": {"max": 1}})).expect(200)
    await until(api, namespace, 2, "denied request: at most 1")
    (await api.delete(f"{limits.path()}/limit")).expect(200)
    await until(api, namespace, 1, missing)


async def test_every_one_that_a_selector_chooses(api: RawApi, limits: Defined, bind: Any, namespace: str) -> None:
    await bind({"selector": {"matchLabels": {"use": "yes"}}, "parameterNotFoundAction": "Allow"})
    for name, most, use in (("loose", 3, "yes"), ("tight", 1, "yes"), ("unused", 0, "no")):
        (await api.post(limits.path(), limits.make(name, {"max": most}, labels={"use": use}))).expect(201)
    await until(api, namespace, 2, "denied request: at most 1")
    await until(api, namespace, 1, None)
    (await api.patch(f"{limits.path()}/tight", {"metadata": {"labels": {"use": "no"}}})).expect(200)
    await until(api, namespace, 3, None)
    await until(api, namespace, 4, "denied request: at most 3")
