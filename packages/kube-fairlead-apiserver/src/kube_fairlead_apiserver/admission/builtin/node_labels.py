"""Decides which labels a kubelet may set on its own node. Pure.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/noderestriction/admission.go,
    k8s.io/kubelet@v0.36.4/pkg/apis/well_known_labels.go
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["forbidden_labels"]

_ALLOWED = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_ALLOWED_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
_RESTRICTED_DOMAIN = "node-restriction.kubernetes.io"


def forbidden_labels(labels: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the labels that were set, changed or removed although a kubelet may not; sorted.

    Workloads select nodes by labels, so a node that could write any label could attract pods with secrets.
    """
    touched = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
    return sorted(key for key in touched if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _within(domain, _RESTRICTED_DOMAIN):
        return True
    if not any(_within(domain, reserved) for reserved in _RESERVED_DOMAINS):
        return False
    return key not in _ALLOWED and not any(_within(domain, allowed) for allowed in _ALLOWED_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
