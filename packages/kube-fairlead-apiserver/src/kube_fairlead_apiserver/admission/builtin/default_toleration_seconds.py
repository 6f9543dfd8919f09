"""DefaultTolerationSeconds: pods stay five minutes on a node that is not ready or cannot be reached.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/defaulttolerationseconds/admission.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation

__all__ = ["DefaultTolerationSeconds"]

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(AdmissionPlugin):
    """Adds the two tolerations that nearly every pod has."""

    def __init__(self, *, seconds: int = 300) -> None:
        self._seconds = seconds

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New and changed pods."""
        return operation in {"CREATE", "UPDATE"} and (group, plural, subresource) == ("", "pods", "")

    async def admit(self, operation: Operation) -> None:
        """Add a toleration for each taint, unless the pod has one."""
        if operation.obj is None:
            return
        spec = operation.obj.setdefault("spec", {})
        tolerations: list[Json] = list(spec.get("tolerations") or ())
        missing = [taint for taint in _TAINTS if not any(_speaks_of(one, taint) for one in tolerations)]
        if missing:
            spec["tolerations"] = tolerations + [self._toleration(taint) for taint in missing]

    def _toleration(self, taint: str) -> Json:
        return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": self._seconds}


def _speaks_of(toleration: Json, taint: str) -> bool:
    return toleration.get("key", "") in {"", taint} and toleration.get("effect", "") in {"", "NoExecute"}
