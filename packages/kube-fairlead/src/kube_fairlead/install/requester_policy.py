"""The user who requests an event, on stock Kubernetes: one policy checks the annotation, another sets it. Pure.

The embedded API server does both by itself.
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import ANNOTATION_REQUESTED_BY
from kube_fairlead.install.installation import Installation

__all__ = ["REQUESTER", "requester_manifests"]


REQUESTER = "requester.fairlead.dev"

_API_VERSION = "admissionregistration.k8s.io/v1"
_ABSENT = "''"


def requester_manifests(installation: Installation) -> list[Json]:
    """The policy that checks the annotation, and the one that sets it, as the installation says."""
    checking = [] if installation.requester == "off" else _checking(installation)
    return [*checking, *(_recording(installation) if installation.requester == "record" else ())]


def _checking(installation: Installation) -> list[Json]:
    requester = _requester("object")
    truthful = f"{requester} in [{_ABSENT}, request.userInfo.username]"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_rule(installation, ["CREATE", "UPDATE"])]},
        "validations": [
            {
                "expression": f"request.operation == 'CREATE' ? {truthful} : {requester} == {_requester('oldObject')}",
                "message": f"the annotation {ANNOTATION_REQUESTED_BY} names the user who creates the event, "
                "and does not change",
                "reason": "Forbidden",
            }
        ],
    }
    binding = {"policyName": REQUESTER, "validationActions": ["Deny"]}
    return _pair("ValidatingAdmissionPolicy", spec, binding)


def _recording(installation: Installation) -> list[Json]:
    annotations = f"{{'{ANNOTATION_REQUESTED_BY}': request.userInfo.username}}"
    value = f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"
    spec = {
        # An event without its requester is better than no event.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_rule(installation, ["CREATE"])]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": value}}],
    }
    return _pair("MutatingAdmissionPolicy", spec, {"policyName": REQUESTER})


def _requester(of: str) -> str:
    return f"{of}.metadata.?annotations['{ANNOTATION_REQUESTED_BY}'].orValue({_ABSENT})"


def _rule(installation: Installation, operations: list[str]) -> Json:
    return {
        "apiGroups": [installation.lifecycle_group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": ["lifecycleevents"],
    }


def _pair(kind: str, spec: Json, binding: Json) -> list[Json]:
    metadata = {"name": REQUESTER}
    return [
        {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": _API_VERSION, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
    ]
