"""Pods: graceful deletion, what can still change once they run, and how they are selected."""

from __future__ import annotations

from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.registry.strategies.podspec import default_pod_itself, default_pod_spec
from fairlead.apiserver.registry.strategies.podvalidation import validate_pod_spec, validate_pod_spec_update
from fairlead.apiserver.registry.strategy import Json, Strategy

__all__ = ["PodStrategy", "quality_of_service"]

_GUARANTEED_RESOURCES = ("cpu", "memory")


class PodStrategy(Strategy):
    """The rules of pods."""

    has_status: bool = True
    tracks_generation: bool = True
    returns_deleted_object: bool = True
    selectable = frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    )

    def default(self, obj: Json) -> None:
        """A pod's own defaults on top of its spec's."""
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod_itself(spec)

    def prepare_create(self, obj: Json) -> None:
        """A new pod is pending, and its class follows from its resources."""
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj.get("spec") or {})}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """The status is its subresource's."""
        obj["status"] = old.get("status") or {}
        # A pod's spec may leave out what was defaulted or assigned; absent is not "changed".
        for field in ("nodeName", "priority"):
            if field not in (obj.get("spec") or {}) and field in old["spec"]:
                obj["spec"][field] = old["spec"][field]

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Status only; what deletion has begun, a status write does not undo."""
        super().prepare_status_update(obj, old)
        status = obj.setdefault("status", {})
        # Two spellings of the same addresses: the older one is the first of the newer.
        for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
            if status.get(one) and not status.get(many):
                status[many] = [{"ip": status[one]}]
        if not status.get("qosClass") and (old.get("status") or {}).get("qosClass"):
            status["qosClass"] = old["status"]["qosClass"]

    def validate(self, obj: Json) -> list[FieldError]:
        """A new pod."""
        return validate_pod_spec(obj.get("spec") or {}, FieldPath("spec"))

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Nearly nothing of a pod's spec can change."""
        return validate_pod_spec(obj["spec"], FieldPath("spec")) + validate_pod_spec_update(obj["spec"], old["spec"])

    def fields(self, obj: Json) -> dict[str, str]:
        """What field selectors ask for."""
        spec = obj.get("spec") or {}
        status = obj.get("status") or {}
        return {
            "spec.nodeName": spec.get("nodeName") or "",
            "spec.restartPolicy": spec.get("restartPolicy") or "",
            "spec.schedulerName": spec.get("schedulerName") or "",
            "spec.serviceAccountName": spec.get("serviceAccountName") or "",
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase") or "",
            "status.podIP": status.get("podIP") or "",
            "status.nominatedNodeName": status.get("nominatedNodeName") or "",
        }

    def grace_seconds(self, obj: Json, requested: int | None) -> int | None:
        """What was asked for, else the pod's own; nothing to wait for when it never ran or has ended."""
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
            return 0
        if requested is not None:
            return requested
        own: int = spec.get("terminationGracePeriodSeconds", 30)
        return 1 if own < 0 else own


def quality_of_service(spec: Json) -> str:
    """Guaranteed when every container's limits equal its requests, BestEffort when none names any, else Burstable."""
    named = False
    guaranteed = True
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        relevant = [name for name in _GUARANTEED_RESOURCES if name in requests or name in limits]
        named = named or bool(relevant)
        full = all(
            name in limits and requests.get(name, limits[name]) == limits[name] for name in _GUARANTEED_RESOURCES
        )
        guaranteed = guaranteed and full
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
