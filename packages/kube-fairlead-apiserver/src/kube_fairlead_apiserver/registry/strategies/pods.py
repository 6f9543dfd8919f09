"""Pods: graceful deletion, mutable fields, and field selectors.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/helper/qos/qos.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

import contextlib

from kube_fairlead.api import golang
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead_apiserver.registry.strategies.pod_resize import resize, validate_resize
from kube_fairlead_apiserver.registry.strategies.pod_spec import default_pod_itself, default_pod_spec
from kube_fairlead_apiserver.registry.strategies.pod_validation import validate_pod_spec, validate_pod_spec_update
from kube_fairlead_apiserver.registry.strategy import ALL_METADATA, Strategy
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["PodStrategy", "quality_of_service"]

_GUARANTEED_RESOURCES = ("cpu", "memory")


class PodStrategy(Strategy):
    """The strategy of pods."""

    has_status: bool = True
    tracks_generation: bool = True
    returns_deleted_object: bool = True
    # A kubelet sends no owner references.
    metadata_kept_by_status = ("ownerReferences",)
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
        """The defaults of a pod, after those of its spec."""
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod_itself(spec)

    def prepare_create(self, obj: Json) -> None:
        """A new pod is Pending, with the QoS class of its resources."""
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj.get("spec") or {})}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """The status changes through its subresource only."""
        obj["status"] = old.get("status") or {}
        # A pod's spec may leave out what was defaulted or assigned; absent is not "changed".
        for field in ("nodeName", "priority"):
            if field not in (obj.get("spec") or {}) and field in old["spec"]:
                obj["spec"][field] = old["spec"][field]

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Only the status changes; a status write does not undo a deletion."""
        super().prepare_status_update(obj, old)
        status = obj.setdefault("status", {})
        # podIP is the first of podIPs.
        for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
            if status.get(one) and not status.get(many):
                status[many] = [{"ip": status[one]}]
        if not status.get("qosClass") and (old.get("status") or {}).get("qosClass"):
            status["qosClass"] = old["status"]["qosClass"]

    def prepare_subresource_update(self, subresource: str, obj: Json, old: Json) -> None:
        """The subresources ephemeralcontainers and resize change containers or resources, and nothing else."""
        asked = obj.get("spec") or {}
        if subresource not in {"ephemeralcontainers", "resize"}:
            return
        metadata = {**obj["metadata"], **{field: old["metadata"].get(field) for field in ALL_METADATA}}
        obj.clear()
        obj.update(copy_json(old))
        obj["metadata"] = {field: value for field, value in metadata.items() if value is not None}
        if subresource == "ephemeralcontainers":
            obj["spec"].pop("ephemeralContainers", None)
            if asked.get("ephemeralContainers"):
                obj["spec"]["ephemeralContainers"] = asked["ephemeralContainers"]
        else:
            resize(obj["spec"], asked)

    def validate_subresource_update(self, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        """Validate: existing ephemeral containers stay; a resize keeps the QoS class."""
        if subresource not in {"ephemeralcontainers", "resize"}:
            return []
        problems = validate_pod_spec(obj["spec"], FieldPath("spec"))
        if subresource == "resize":
            was = (old.get("status") or {}).get("qosClass") or quality_of_service(old["spec"])
            return problems + validate_resize(obj, old, quality_of_service(obj["spec"]), was)
        at, there = FieldPath("spec").child("ephemeralContainers"), obj["spec"].get("ephemeralContainers") or ()
        by_name = {one.get("name"): one for one in there}
        for known in old["spec"].get("ephemeralContainers") or ():
            now = by_name.get(known["name"])
            if now != known:
                done = "removed" if now is None else "changed"
                text = f"existing ephemeral containers {golang.quote(known['name'])} may not be {done}\n"
                problems.append(FieldError.forbidden(at, text))
        return problems

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate a new pod."""
        return validate_pod_spec(obj.get("spec") or {}, FieldPath("spec"))

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change of a pod."""
        return validate_pod_spec(obj["spec"], FieldPath("spec")) + validate_pod_spec_update(obj["spec"], old["spec"])

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields."""
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
        """Return the requested grace period, else the pod's; 0 for a pod that never ran or has ended."""
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
        requests, limits = _counted(resources.get("requests")), _counted(resources.get("limits"))
        relevant = [name for name in _GUARANTEED_RESOURCES if name in requests or name in limits]
        named = named or bool(relevant)
        full = all(
            name in limits and requests.get(name, limits[name]) == limits[name] for name in _GUARANTEED_RESOURCES
        )
        guaranteed = guaranteed and full
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(amounts: Json | None) -> dict[str, Quantity]:
    """Return the quantities that count for the QoS class: only positive ones."""
    counted: dict[str, Quantity] = {}
    for name in _GUARANTEED_RESOURCES:
        with contextlib.suppress(QuantityError):
            amount = Quantity.parse(str((amounts or {}).get(name, "0")))
            if amount.unscaled > 0:
                counted[name] = amount
    return counted
