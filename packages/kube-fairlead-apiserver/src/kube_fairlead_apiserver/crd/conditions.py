"""The conditions of a CRD, and the finalizer that deletes its objects before the CRD is removed.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apihelpers/helpers.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/apiapproval/apiapproval_controller.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/finalizer/crd_finalizer.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/nonstructuralschema/nonstructuralschema_controller.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresourcedefinition/etcd.go
"""

from __future__ import annotations

import datetime as dt
import re

from kube_fairlead.api import golang, time
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.cel.string_formats import matches_format

__all__ = [
    "APPROVED_ANNOTATION",
    "CLEANUP_FINALIZER",
    "approval_condition",
    "approval_state",
    "condition",
    "find_condition",
    "is_established",
    "is_protected_group",
    "mark_for_deletion",
    "set_condition",
    "terminating_condition",
]


CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
APPROVED_ANNOTATION = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_HAS_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]+")

# The reasons of the Terminating condition, and their messages.
_TERMINATING = {
    "InstanceDeletionPending": (
        "True",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    ),
    "InstanceDeletionInProgress": ("True", "CustomResource deletion is in progress"),
    "InstanceDeletionFailed": ("True", "could not issue all deletes: {}"),
    "InstanceDeletionCheck": ("True", "could not confirm zero CustomResources remaining: {}"),
    "InstanceDeletionCompleted": ("False", "removed all instances"),
    "NeverEstablished": ("False", "resource was never established"),
    "OverlappingBuiltInResource": ("False", "instances overlap with built-in resources in storage"),
}


def condition(kind: str, status: str, reason: str, message: str) -> Json:
    """Build a condition without its time; `set_condition` sets the time."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def find_condition(crd: Json, kind: str) -> Json | None:
    """Return the condition of that type, if the CRD has one."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), None)


def set_condition(crd: Json, new: Json, now: dt.datetime) -> bool:
    """Set a condition in the status in place; its time changes only with its status. Returns whether it changed."""
    status = crd.setdefault("status", {})
    if not status.get("conditions"):
        status["conditions"] = []
    found = find_condition(crd, new["type"])
    if found is None:
        status["conditions"].append({"lastTransitionTime": time.format_time(now), **new})
        return True
    before = dict(found)
    if found.get("status") != new["status"] or not found.get("lastTransitionTime"):
        found["lastTransitionTime"] = time.format_time(now)
    found.update(new)
    return found != before


def _is_true(crd: Json, kind: str) -> bool:
    found = find_condition(crd, kind)
    return found is not None and found.get("status") == "True"


def is_established(crd: Json) -> bool:
    """Return whether the CRD's objects are served."""
    return _is_true(crd, "Established")


def terminating_condition(reason: str, error: object = "") -> Json:
    """Build the Terminating condition for one of Kubernetes' reasons."""
    status, message = _TERMINATING[reason]
    return condition("Terminating", status, reason, message.format(error))


def mark_for_deletion(crd: Json, now: dt.datetime) -> None:
    """Apply the first DELETE to a CRD in place: deletionTimestamp, finalizer, condition."""
    metadata = crd["metadata"]
    metadata.setdefault("deletionTimestamp", time.format_time(now))
    finalizers = metadata.setdefault("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    set_condition(crd, terminating_condition("InstanceDeletionPending"), now)


def is_protected_group(group: str) -> bool:
    """Return whether a group belongs to the Kubernetes community, so that its CRDs need an approval."""
    return any(group == owner or group.endswith(f".{owner}") for owner in ("k8s.io", "kubernetes.io"))


def approval_state(crd: Json) -> tuple[str, str]:
    """Return the reason and the message of the approval condition."""
    said = ((crd.get("metadata") or {}).get("annotations") or {}).get(APPROVED_ANNOTATION) or ""
    quoted = golang.quote(APPROVED_ANNOTATION)
    if not said:
        return "MissingAnnotation", f"protected groups must have approval annotation {quoted}, {_SEE}"
    if said.startswith("unapproved"):
        return "UnapprovedAnnotation", f"not approved: {golang.quote(said)}"
    is_uri = matches_format("uri")
    if is_uri is not None and is_uri(said) and _HAS_HOST.match(said):
        return "ApprovedAnnotation", f"approved in {said}"
    problem = f'with either a URL or a reason starting with "unapproved", {_SEE}'
    return "InvalidAnnotation", f"protected groups must have approval annotation {quoted} {problem}"


def approval_condition(crd: Json) -> Json | None:
    """Build KubernetesAPIApprovalPolicyConformant, for protected groups only."""
    if not is_protected_group(crd["spec"].get("group", "")):
        return None
    reason, message = approval_state(crd)
    status = "True" if reason == "ApprovedAnnotation" else "False"
    return condition("KubernetesAPIApprovalPolicyConformant", status, reason, message)
