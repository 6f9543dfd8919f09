"""Who asked for an event, on stock Kubernetes: a user cannot say to be another, and a policy names the user. Pure.

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
    """The policy that judges the annotation, and the one that writes it, as far as they are wanted."""
    judging = [] if installation.requester == "off" else _judging(installation)
    return [*judging, *(_writing(installation) if installation.requester == "record" else ())]


def _judging(installation: Installation) -> list[Json]:
    said = _said("object")
    truthful = f"{said} in [{_ABSENT}, request.userInfo.username]"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_rule(installation, ["CREATE", "UPDATE"])]},
        "validations": [
            {
                "expression": f"request.operation == 'CREATE' ? {truthful} : {said} == {_said('oldObject')}",
                "message": f"the annotation {ANNOTATION_REQUESTED_BY} names the user who creates the event, "
                "and does not change",
                "reason": "Forbidden",
            }
        ],
    }
    binding = {"policyName": REQUESTER, "validationActions": ["Deny"]}
    return _pair("ValidatingAdmissionPolicy", spec, binding)


def _writing(installation: Installation) -> list[Json]:
    annotations = f"{{'{ANNOTATION_REQUESTED_BY}': request.userInfo.username}}"
    value = f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"
    spec = {
        # An event is more important than who asked for it.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_rule(installation, ["CREATE"])]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": value}}],
    }
    return _pair("MutatingAdmissionPolicy", spec, {"policyName": REQUESTER})


def _said(of: str) -> str:
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
