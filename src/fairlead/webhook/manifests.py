"""What a cluster must be told to use the webhook: exactly the rights it needs, and when to call it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from fairlead.api.gvk import GroupResource
from fairlead.api.reserved import ANNOTATION_GRACE_DEADLINE
from fairlead.webhook.server import PATH

__all__ = ["access_manifests", "registration"]

Json = dict[str, Any]

_NAME = "fairlead-webhook"
_HOOK = "deletion.grace.fairlead.dev"
# Longer than the recorder's patience: it answers before the API server gives up on it.
_TIMEOUT_SECONDS = 10

# Plain deletes that have nothing to correct, which are most of them, do not leave the API server at all.
_CONDITION = (
    "has(request.options.gracePeriodSeconds) || (has(oldObject.metadata.annotations) && "
    f"'{ANNOTATION_GRACE_DEADLINE}' in oldObject.metadata.annotations)"
)


def access_manifests(resources: Sequence[GroupResource], *, namespace: str) -> list[Json]:
    """The service account and its rights: to read and annotate these custom resources, and nothing else."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _NAME},
        "rules": [
            {"apiGroups": [group], "resources": plurals, "verbs": ["get", "patch"]}
            for group, plurals in _by_group(resources).items()
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _NAME},
        "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME, "namespace": namespace}}
    return [account, role, binding]


def registration(
    resources: Sequence[GroupResource], *, namespace: str = "", url: str = "", authority: bytes = b""
) -> Json:
    """The ValidatingWebhookConfiguration.

    Args:
        resources: the custom resources whose deletes it is shown.
        namespace: where its Service is, when it runs in the cluster.
        url: where it is, when it runs elsewhere.
        authority: PEM of the certificate that signed its own.
    """
    where: Json = {"url": url} if url else {"service": {"name": _NAME, "namespace": namespace, "path": PATH}}
    if authority:
        where["caBundle"] = base64.b64encode(authority).decode("ascii")
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": ["DELETE"], "resources": plurals, "scope": "*"}
        for group, plurals in _by_group(resources).items()
    ]
    hook = {
        "name": _HOOK,
        "clientConfig": where,
        "rules": rules,
        "matchConditions": [{"name": "grace-or-note", "expression": _CONDITION}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        # Advice that cannot be recorded must not keep anybody from deleting.
        "failurePolicy": "Ignore",
        "timeoutSeconds": _TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _NAME},
        "webhooks": [hook],
    }


def _by_group(resources: Sequence[GroupResource]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for resource in resources:
        plurals = groups.setdefault(resource.group, [])
        if resource.resource not in plurals:
            plurals.append(resource.resource)
    return groups
