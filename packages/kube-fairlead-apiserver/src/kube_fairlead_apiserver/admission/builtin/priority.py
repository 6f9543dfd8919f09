"""Priority: a pod's priority and preemption policy follow from its priority class.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/priority/admission.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/scheduling/v1/helpers.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader

__all__ = ["SYSTEM_CLASSES", "Priority"]

_GROUP = "scheduling.k8s.io"
_CLASSES = (_GROUP, "v1", "priorityclasses")

# The classes that every cluster has; kube-apiserver creates them when it starts.
SYSTEM_CLASSES: tuple[Json, ...] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Reserved for what a node needs to work, and cannot move from it.",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Reserved for what the cluster needs to work, and may move within it.",
    },
)
_NO_CLASS: Json = {"metadata": {"name": ""}, "value": 0, "preemptionPolicy": "PreemptLowerPriority"}


class Priority(AdmissionPlugin):
    """Resolves priority classes, and keeps the default class the only one."""

    def __init__(self, objects: ObjectReader) -> None:
        self._classes = objects.derive([_CLASSES], lambda: self._read(objects))

    @staticmethod
    def _read(objects: ObjectReader) -> dict[str, Json]:
        resource = objects.catalog.get(*_CLASSES)
        stored = [] if resource is None else objects.list(resource)
        # The system classes are always known, also before they are stored for the first time.
        known = {one["metadata"]["name"]: {"preemptionPolicy": "PreemptLowerPriority", **one} for one in SYSTEM_CLASSES}
        return known | {one["metadata"]["name"]: one for one in stored}

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Pods and priority classes."""
        if subresource or operation not in {"CREATE", "UPDATE"}:
            return False
        return (group, plural) in {("", "pods"), (_GROUP, "priorityclasses")}

    async def admit(self, operation: Operation) -> None:
        """Set a new pod's priority; an existing pod keeps its own."""
        if operation.obj is None or operation.resource.plural != "pods":
            return
        spec = operation.obj.setdefault("spec", {})
        if operation.operation == "UPDATE":
            before = (operation.old or {}).get("spec") or {}
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and before.get(field) is not None:
                    spec[field] = before[field]
            return
        self._resolve(operation, spec)

    def _resolve(self, operation: Operation, spec: Json) -> None:
        name = spec.get("priorityClassName")
        chosen = self._classes.get().get(name) if name else (self._default_class() or _NO_CLASS)
        if chosen is None:
            raise operation.forbidden(f"no PriorityClass with name {name} was found")
        priority = chosen.get("value", 0)
        if spec.get("priority") not in {None, priority}:
            raise operation.forbidden(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
        policy = chosen.get("preemptionPolicy")
        if policy and spec.get("preemptionPolicy") not in {None, "", policy}:
            raise operation.forbidden(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        if chosen["metadata"]["name"]:
            spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["priority"] = priority
        if policy:
            spec["preemptionPolicy"] = policy

    def _default_class(self) -> Json | None:
        """The default class; of several (created in a race) the lowest."""
        marked = [one for one in self._classes.get().values() if one.get("globalDefault")]
        return min(marked, key=lambda one: one.get("value", 0), default=None)

    async def validate(self, operation: Operation) -> None:
        """Reject a second default class."""
        if operation.resource.plural != "priorityclasses" or not (operation.obj or {}).get("globalDefault"):
            return
        default = self._default_class()
        if default is not None and (operation.operation == "CREATE" or default["metadata"]["name"] != operation.name):
            raise operation.forbidden(
                f"PriorityClass {default['metadata']['name']} is already marked as default. Only one default can exist"
            )
