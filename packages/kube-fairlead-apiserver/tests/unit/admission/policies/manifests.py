"""Policies and bindings with what the API requires filled in."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def rule(**fields: Any) -> Json:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        **fields,
    }


def policy(name: str, *validations: Json, **spec: Any) -> Json:
    """For config maps, unless said otherwise."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule()]}, "validations": list(validations), **spec},
    }


def binding(name: str, policy_name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": ["Deny"], **spec},
    }
