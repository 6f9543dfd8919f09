"""The status of a ValidatingAdmissionPolicy: what its expressions get wrong with the kinds that its rules name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead_lab.testing.rawhttp import RawApi

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
Json = dict[str, Any]


def policy(name: str, *expressions: str) -> Json:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    validations = [{"expression": expression} for expression in expressions]
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
    }


def looked_at(generation: int) -> Callable[[Any], bool]:
    return lambda answer: answer.json.get("status", {}).get("observedGeneration") == generation


async def test_a_misspelt_field_is_warned_of(api: RawApi, unique_name: Callable[[str], str]) -> None:
    name = unique_name("policy")
    (await api.post(POLICIES, policy(name, "object.spec.replicas > 1", "object.spec.replica > 1"))).expect(201)
    try:
        status = (await api.poll(f"{POLICIES}/{name}", looked_at(1))).json["status"]
        (warning,) = status["typeChecking"]["expressionWarnings"]
        assert warning["fieldRef"] == "spec.validations[1].expression"
        assert warning["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'")
        right = {"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}}
        (await api.patch(f"{POLICIES}/{name}", right)).expect(200)
        status = (await api.poll(f"{POLICIES}/{name}", looked_at(2))).json["status"]
        assert status.get("typeChecking", {}) == {}
    finally:
        (await api.delete(f"{POLICIES}/{name}")).expect(200)
