"""TaintNodesByCondition: a new node gets no pods before it is ready.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/nodetaint/admission.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation

__all__ = ["TaintNodesByCondition"]

_NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(AdmissionPlugin):
    """Taints nodes on create. The node lifecycle controller removes the taint."""

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New nodes."""
        return (operation, group, plural, subresource) == ("CREATE", "", "nodes", "")

    async def admit(self, operation: Operation) -> None:
        """Add the taint, unless it exists."""
        if operation.obj is None:
            return
        spec = operation.obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]
