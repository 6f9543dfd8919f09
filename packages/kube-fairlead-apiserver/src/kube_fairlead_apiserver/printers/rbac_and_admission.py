"""RBAC kinds, CertificateSigningRequests, admission webhooks and policies.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.printer_columns import human_duration
from kube_fairlead_apiserver.printers.cluster import simple
from kube_fairlead_apiserver.printers.columns import NONE, UNSET, Printer, age, columns, dig, listed, name_of

__all__ = ["ACCESS"]


def _binding(obj: Json, now: dt.datetime) -> list[Any]:
    subjects: list[Json] = listed(obj, "subjects")
    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"]
    return [
        name_of(obj),
        f"{dig(obj, 'roleRef', 'kind', default='')}/{dig(obj, 'roleRef', 'name', default='')}",
        age(obj, now),
        ", ".join(s.get("name", "") for s in subjects if s.get("kind") == "User"),
        ", ".join(s.get("name", "") for s in subjects if s.get("kind") == "Group"),
        ", ".join(accounts),
    ]


def _signing_request(obj: Json, now: dt.datetime) -> list[Any]:
    seconds = dig(obj, "spec", "expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        dig(obj, "spec", "signerName", default="") or NONE,
        dig(obj, "spec", "username", default=""),
        NONE if seconds is None else human_duration(dt.timedelta(seconds=seconds)),
        _signing_status(obj),
    ]


def _signing_status(obj: Json) -> str:
    kinds = {condition.get("type") for condition in listed(obj, "status", "conditions")}
    status = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        status += ",Failed"
    if dig(obj, "status", "certificate"):
        status += ",Issued"
    return status


def _param_kind(obj: Json) -> str:
    kind = dig(obj, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(obj: Json) -> str:
    reference = dig(obj, "spec", "paramRef", default={})
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    if reference.get("selector") is not None:
        return _go_selector(reference["selector"])
    return UNSET


def _go_selector(selector: Json) -> str:
    """Return a LabelSelector as Go's generated code spells the struct out."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(dig(selector, "matchLabels", default={}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{found.get('key', '')},Operator:{found.get('operator', '')},"
        f"Values:[{' '.join(found.get('values') or [])}],}},"
        for found in listed(selector, "matchExpressions")
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


_WEBHOOKS = Printer(columns("Name", "Webhooks:integer", "Age"), simple(lambda obj: len(listed(obj, "webhooks"))))
_BINDING = Printer(columns("Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+"), _binding)

ACCESS: dict[tuple[str, str], Printer] = {
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): Printer(
        columns("Name", "Validations:integer", "ParamKind", "Age"),
        simple(lambda obj: len(listed(obj, "spec", "validations")), _param_kind),
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): Printer(
        columns("Name", "PolicyName", "ParamRef", "Age"),
        simple(lambda obj: dig(obj, "spec", "policyName", default=""), _param_ref),
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("certificates.k8s.io", "CertificateSigningRequest"): Printer(
        columns("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"), _signing_request
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
}
