"""Workloads: their defaults, their validation, and their immutable fields.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/apps/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/apps/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/deployment/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/replicaset/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/statefulset/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/daemonset/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/replicationcontroller/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/zz_generated.validations.go
"""

from __future__ import annotations

from typing import ClassVar

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks, templates
from kube_fairlead_apiserver.registry.strategies.persistent_volume_claims import default_claim, validate_claim_spec
from kube_fairlead_apiserver.registry.strategies.pod_spec import default_pod_spec
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "ReplicaSetStrategy",
    "ReplicationControllerStrategy",
    "StatefulSetStrategy",
]

_SPEC = FieldPath("spec")


class _WorkloadStrategy(Strategy):
    """The common part of workloads: a template, a selector, a generation."""

    has_status: bool = True
    tracks_generation: bool = True
    # How Kubernetes calls the kind in what it says of its selector, and of its pods. Deployments share the words of
    # the ReplicaSets that they make, and the other way round.
    selects_as: ClassVar[str] = "deployment"
    runs_as: ClassVar[str] = "ReplicaSet"
    unreadable: ClassVar[str] = "invalid label selector"
    counts: ClassVar[tuple[str, ...]] = ("replicas", "minReadySeconds")

    def default(self, obj: Json) -> None:
        """Set the defaults of the template's pod, then those of the kind."""
        spec = obj.setdefault("spec", {})
        template = spec.get("template")
        if isinstance(template, dict):
            default_pod_spec(template.setdefault("spec", {}))
            if template.get("metadata") is None:
                template["metadata"] = {}
        self.default_spec(spec)

    def default_spec(self, spec: Json) -> None:
        """Set the kind's own defaults."""

    def prepare_create(self, obj: Json) -> None:
        """Replace the status by an empty one, which only the controller writes."""
        obj["status"] = self.empty_status()

    def empty_status(self) -> Json:
        """Return the status of a workload before its controller has seen it."""
        return {}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the selector, which must match the template's labels, and the template."""
        spec = obj.get("spec") or {}
        problems = field_checks.not_negative(spec, _SPEC, *self.counts)
        problems += self.validate_selector(spec)
        problems += self.validate_pods(spec.get("template") or {}, _SPEC.child("template"))
        return problems + self.validate_rollout(spec)

    def validate_pods(self, template: Json, path: FieldPath) -> list[FieldError]:
        """Validate the pod template."""
        problems = templates.validate_template(template, path)
        return problems + templates.validate_endless(template, path, self.runs_as)

    def validate_selector(self, spec: Json) -> list[FieldError]:
        """Validate the selector."""
        selector, path = spec.get("selector"), _SPEC.child("selector")
        problems = templates.validate_selector(selector, path, self.selects_as)
        if not templates.is_readable(selector):
            problems.append(FieldError.invalid(path, selector, self.unreadable))
        return problems + templates.is_selected(selector, spec, _SPEC)

    def validate_rollout(self, spec: Json) -> list[FieldError]:
        """Validate the update strategy; the kind's own rules."""
        del spec
        return []

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: the selector is immutable."""
        return self.validate(obj) + field_checks.changed(
            obj.get("spec") or {}, old.get("spec") or {}, _SPEC, "selector"
        )


class DeploymentStrategy(_WorkloadStrategy):
    """apps/v1 Deployment."""

    metadata_kept_by_status = ("labels",)

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether spec or annotations differ: annotations are copied to the ReplicaSets."""
        annotations = obj["metadata"].get("annotations")
        return super().generation_changed(obj, old) or annotations != old["metadata"].get("annotations")

    def default_spec(self, spec: Json) -> None:
        """Default: one replica, RollingUpdate with 25 percent."""
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def validate_rollout(self, spec: Json) -> list[FieldError]:
        """Validate the update strategy and the deadlines: maxSurge and maxUnavailable may not both be 0."""
        strategy, path = spec.get("strategy") or {}, _SPEC.child("strategy")
        rolling, at = strategy.get("rollingUpdate"), path.child("rollingUpdate")
        problems: list[FieldError] = []
        if strategy.get("type") == "Recreate":
            if rolling is not None:
                problems.append(FieldError.forbidden(at, "may not be specified when strategy `type` is 'Recreate'"))
        elif strategy.get("type") == "RollingUpdate":
            problems += _validate_rolling(rolling or {}, at)
        else:
            problems.append(FieldError.not_supported(path, strategy, ("Recreate", "RollingUpdate")))
        problems += field_checks.not_negative(spec, _SPEC, "revisionHistoryLimit", "progressDeadlineSeconds")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
            at = _SPEC.child("progressDeadlineSeconds")
            problems.append(FieldError.invalid(at, deadline, "must be greater than minReadySeconds"))
        return problems


def _validate_rolling(rolling: Json, path: FieldPath) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    problems = field_checks.int_or_percent(unavailable, path.child("maxUnavailable"))
    problems += field_checks.int_or_percent(surge, path.child("maxSurge"))
    if not field_checks.percent_value(unavailable) and not field_checks.percent_value(surge):
        at = path.child("maxUnavailable")
        problems.append(FieldError.invalid(at, unavailable, "may not be 0 when `maxSurge` is 0"))
    return problems + field_checks.percent_at_most_all(unavailable, path.child("maxUnavailable"))


class ReplicaSetStrategy(_WorkloadStrategy):
    """apps/v1 ReplicaSet."""

    selectable = frozenset({"status.replicas"})

    def default_spec(self, spec: Json) -> None:
        """Default: one replica."""
        spec.setdefault("replicas", 1)

    def empty_status(self) -> Json:
        """Return the status with its required field replicas."""
        return {"replicas": 0}

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the number of replicas."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class ReplicationControllerStrategy(_WorkloadStrategy):
    """v1 ReplicationController: its selector is a bare map, and defaults to the template's labels."""

    runs_as: ClassVar[str] = "ReplicationController"
    selectable = frozenset({"status.replicas"})

    def default(self, obj: Json) -> None:
        """Default: one replica, and the template's labels as selector and labels."""
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        labels = templates.template_labels(spec)
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def empty_status(self) -> Json:
        """Return the status with its required field replicas."""
        return {"replicas": 0}

    def validate_pods(self, template: Json, path: FieldPath) -> list[FieldError]:
        """Validate the template, which is required although its schema has it as optional."""
        return super().validate_pods(template, path) if template else [FieldError.required(path, "")]

    def validate_selector(self, spec: Json) -> list[FieldError]:
        """Validate the selector, a plain map of labels."""
        if not spec.get("selector"):
            return [FieldError.required(_SPEC.child("selector"), "")]
        if not spec.get("template"):
            return []
        return templates.is_selected({"matchLabels": spec["selector"]}, spec, _SPEC)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: unlike in other workloads, the selector may change."""
        del old
        return self.validate(obj)

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the number of replicas."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class StatefulSetStrategy(_WorkloadStrategy):
    """apps/v1 StatefulSet."""

    selects_as: ClassVar[str] = "statefulset"
    runs_as: ClassVar[str] = "StatefulSet"
    unreadable: ClassVar[str] = ""

    def default_spec(self, spec: Json) -> None:
        """Default: one replica, OrderedReady, RollingUpdate, claims that are retained."""
        spec.setdefault("serviceName", "")
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            default_claim(claim)
        spec.setdefault("replicas", 1)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})

    def empty_status(self) -> Json:
        """Return the status with its required fields."""
        return {"replicas": 0, "availableReplicas": 0}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate a new StatefulSet; the claim templates are immutable, so they are validated once."""
        spec = obj.get("spec") or {}
        problems = self._validate_own(obj)
        if spec.get("serviceName"):
            at = _SPEC.child("serviceName")
            problems += field_checks.complaints(at, spec["serviceName"], names.dns1123_label(spec["serviceName"]))
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            problems += validate_claim_spec(
                claim.get("spec") or {}, _SPEC.item("volumeClaimTemplates", index).child("spec")
            )
        return problems

    def _validate_own(self, obj: Json) -> list[FieldError]:
        spec = obj.get("spec") or {}
        claims = [_as_volume(claim) for claim in spec.get("volumeClaimTemplates") or ()]
        if not claims:
            return super().validate(obj)
        # Containers mount the future claims by their names, as if they were volumes of the template.
        template = spec.get("template") or {}
        pod = template.get("spec") or {}
        full = {**template, "spec": {**pod, "volumes": _with_claims(pod.get("volumes") or [], claims)}}
        return super().validate({**obj, "spec": {**spec, "template": full}})

    def validate_rollout(self, spec: Json) -> list[FieldError]:
        """Validate the update strategy and the retention of claims."""
        policy, path = spec.get("podManagementPolicy"), _SPEC.child("podManagementPolicy")
        problems: list[FieldError] = []
        if policy not in _ORDERS:
            problems.append(FieldError.invalid(path, policy, f"must be '{_ORDERS[0]}' or '{_ORDERS[1]}'"))
        strategy, path = spec.get("updateStrategy") or {}, _SPEC.child("updateStrategy")
        rolling, at = strategy.get("rollingUpdate"), path.child("rollingUpdate")
        if strategy.get("type") == "OnDelete":
            if rolling is not None:
                problems.append(FieldError.invalid(at, rolling, "only allowed for updateStrategy 'RollingUpdate'"))
        elif strategy.get("type") == "RollingUpdate":
            problems += field_checks.not_negative(rolling or {}, at, "partition")
        else:
            problems.append(FieldError.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
        kept, path = (
            spec.get("persistentVolumeClaimRetentionPolicy") or {},
            _SPEC.child("persistentVolumeClaimRetentionPolicy"),
        )
        for field in ("whenDeleted", "whenScaled"):
            problems += field_checks.one_of(kept, path, field, ("Retain", "Delete"))
        return problems + field_checks.not_negative(spec.get("ordinals") or {}, _SPEC.child("ordinals"), "start")

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: only the fields that the controller can apply are mutable."""
        problems = self._validate_own(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if any(spec.get(field) != before.get(field) for field in (spec.keys() | before.keys()) - _MUTABLE):
            problems.append(FieldError.forbidden(_SPEC, _FIXED))
        return problems


_ORDERS = ("OrderedReady", "Parallel")
_MUTABLE = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "revisionHistoryLimit",
        "template",
        "updateStrategy",
    }
)
_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _as_volume(claim: Json) -> Json:
    name = (claim.get("metadata") or {}).get("name") or ""
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def _with_claims(volumes: list[Json], claims: list[Json]) -> list[Json]:
    claimed = {claim["name"] for claim in claims}
    return [*claims, *(volume for volume in volumes if volume.get("name") not in claimed)]


class DaemonSetStrategy(_WorkloadStrategy):
    """apps/v1 DaemonSet."""

    runs_as: ClassVar[str] = "DaemonSet"
    selects_as: ClassVar[str] = "daemonset"
    counts: ClassVar[tuple[str, ...]] = ("minReadySeconds", "revisionHistoryLimit")

    def prepare_create(self, obj: Json) -> None:
        """Set the template generation to 1."""
        super().prepare_create(obj)
        _number_template(obj, "1")

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Increase the template generation with a changed template."""
        super().prepare_update(obj, old)
        before = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "0"
        template = {**obj, "spec": {"template": (obj.get("spec") or {}).get("template")}}
        self.default(template)
        changed = template["spec"]["template"] != old["spec"].get("template")
        _number_template(obj, str(int(before) + changed) if before.isdecimal() else before)

    def default_spec(self, spec: Json) -> None:
        """Default: RollingUpdate, one node at a time."""
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def empty_status(self) -> Json:
        """Return the status with its four required fields."""
        return {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}

    def validate_selector(self, spec: Json) -> list[FieldError]:
        """Validate the selector. A missing one is accepted by itself, but it does not match the template's labels."""
        selector = spec.get("selector")
        problems = templates.is_selected(selector, spec, _SPEC)
        if selector is not None:
            problems += templates.validate_selector(selector, _SPEC.child("selector"), self.selects_as)
        return problems

    def validate_rollout(self, spec: Json) -> list[FieldError]:
        """Validate the update strategy: either maxUnavailable or maxSurge is positive."""
        strategy, path = spec.get("updateStrategy") or {}, _SPEC.child("updateStrategy")
        if strategy.get("type") == "OnDelete":
            return []
        if strategy.get("type") != "RollingUpdate":
            return [FieldError.not_supported(path, strategy, ("RollingUpdate", "OnDelete"))]
        path = path.child("rollingUpdate")
        rolling = strategy.get("rollingUpdate") or {}
        problems: list[FieldError] = []
        for field in ("maxUnavailable", "maxSurge"):
            problems += field_checks.int_or_percent(rolling.get(field), path.child(field))
            problems += field_checks.percent_at_most_all(rolling.get(field), path.child(field))
        unavailable = field_checks.percent_value(rolling.get("maxUnavailable"))
        surge = field_checks.percent_value(rolling.get("maxSurge"))
        if unavailable and surge:
            at = path.child("maxSurge")
            problems.append(
                FieldError.invalid(at, rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
            )
        elif not unavailable and not surge:
            problems.append(FieldError.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
        return problems


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _number_template(obj: Json, number: str) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: number}
