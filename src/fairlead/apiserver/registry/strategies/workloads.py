"""Workloads: what Kubernetes fills in for their owners, and what they may not change later."""

from __future__ import annotations

from typing import Any, ClassVar

from fairlead.api import selectors
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.registry.strategies.podspec import default_pod_spec
from fairlead.apiserver.registry.strategies.podvalidation import validate_pod_spec
from fairlead.apiserver.registry.strategy import Json, Strategy

__all__ = [
    "CronJobStrategy",
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "JobStrategy",
    "ReplicaSetStrategy",
    "ReplicationControllerStrategy",
    "StatefulSetStrategy",
]


class _WorkloadStrategy(Strategy):
    """What all workloads share: a template, a selector, a generation."""

    has_status: bool = True
    tracks_generation: bool = True
    immutable: ClassVar[tuple[str, ...]] = ("selector",)

    def default(self, obj: Json) -> None:
        """The template's pod first, then the kind's own."""
        spec = obj.setdefault("spec", {})
        template = spec.get("template")
        if isinstance(template, dict):
            default_pod_spec(template.setdefault("spec", {}))
            if template.get("metadata") is None:
                template["metadata"] = {}
        self.default_spec(spec)

    def default_spec(self, spec: Json) -> None:
        """The kind's own defaults."""

    def prepare_create(self, obj: Json) -> None:
        """Status is for the controller; Kubernetes shows it empty, not absent."""
        obj["status"] = self.empty_status()

    def empty_status(self) -> Json:
        """The status of a workload that no controller has seen."""
        return {}

    def validate(self, obj: Json) -> list[FieldError]:
        """The selector must select the template's pods, and the template must be a pod."""
        spec = obj.get("spec") or {}
        path = FieldPath("spec")
        problems: list[FieldError] = []
        replicas = spec.get("replicas")
        if isinstance(replicas, int) and replicas < 0:
            problems.append(FieldError.invalid(path.child("replicas"), replicas, "must be greater than or equal to 0"))
        selector = spec.get("selector")
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        if selector is None:
            problems.append(FieldError.required(path.child("selector"), ""))
        else:
            problems += self._selects(selector, labels, path)
        problems += validate_pod_spec(template.get("spec") or {}, path.child("template").child("spec"))
        return problems

    def _selects(self, selector: Json, labels: Json, path: FieldPath) -> list[FieldError]:
        if not selector:
            return [FieldError.invalid(path.child("selector"), selector, "empty selector is invalid for deployment")]
        try:
            matcher = selectors.label_selector_from(selector)
        except selectors.SelectorError as error:
            return [FieldError.invalid(path.child("selector"), selector, str(error))]
        if matcher.matches(labels):
            return []
        at = path.child("template").child("metadata").child("labels")
        return [FieldError.invalid(at, labels, "`selector` does not match template `labels`")]

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """What was fixed at the beginning stays."""
        problems = self.validate(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        problems += [
            FieldError.invalid(FieldPath("spec").child(field), spec.get(field), "field is immutable")
            for field in self.immutable
            if spec.get(field) != before.get(field)
        ]
        return problems


class DeploymentStrategy(_WorkloadStrategy):
    """apps/v1 Deployment."""

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Labels of a Deployment do not change through its status."""
        super().prepare_status_update(obj, old)
        labels = old["metadata"].get("labels")
        if labels is None:
            obj["metadata"].pop("labels", None)
        else:
            obj["metadata"]["labels"] = labels

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Annotations count too, for they are copied to the ReplicaSets."""
        annotations = obj["metadata"].get("annotations")
        return super().generation_changed(obj, old) or annotations != old["metadata"].get("annotations")

    def default_spec(self, spec: Json) -> None:
        """One replica, rolled a quarter at a time."""
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)


class ReplicaSetStrategy(_WorkloadStrategy):
    """apps/v1 ReplicaSet."""

    selectable = frozenset({"status.replicas"})

    def default_spec(self, spec: Json) -> None:
        """One replica."""
        spec.setdefault("replicas", 1)

    def empty_status(self) -> Json:
        """Replicas are always counted."""
        return {"replicas": 0}

    def fields(self, obj: Json) -> dict[str, str]:
        """How many replicas there are."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class ReplicationControllerStrategy(_WorkloadStrategy):
    """v1 ReplicationController: its selector is a bare map, and defaults to the template's labels."""

    immutable: ClassVar[tuple[str, ...]] = ()
    selectable = frozenset({"status.replicas"})

    def default_spec(self, spec: Json) -> None:
        """One replica of what the template says."""
        spec.setdefault("replicas", 1)
        if not spec.get("selector"):
            spec["selector"] = dict(((spec.get("template") or {}).get("metadata") or {}).get("labels") or {})

    def empty_status(self) -> Json:
        """Replicas are always counted."""
        return {"replicas": 0}

    def validate(self, obj: Json) -> list[FieldError]:
        """As for other workloads, but for the shape of the selector."""
        spec = obj.get("spec") or {}
        template = (spec.get("template") or {}).get("spec") or {}
        return validate_pod_spec(template, FieldPath("spec").child("template").child("spec"))

    def fields(self, obj: Json) -> dict[str, str]:
        """How many replicas there are."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class StatefulSetStrategy(_WorkloadStrategy):
    """apps/v1 StatefulSet."""

    immutable: ClassVar[tuple[str, ...]] = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")

    def default_spec(self, spec: Json) -> None:
        """One replica, one after another."""
        spec.setdefault("replicas", 1)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})

    def empty_status(self) -> Json:
        """Replicas are always counted."""
        return {"replicas": 0, "availableReplicas": 0}


class DaemonSetStrategy(_WorkloadStrategy):
    """apps/v1 DaemonSet."""

    def default_spec(self, spec: Json) -> None:
        """One node at a time."""
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def empty_status(self) -> Json:
        """These four are always counted."""
        return {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}


class JobStrategy(_WorkloadStrategy):
    """batch/v1 Job: the server gives it a selector of its own, by its uid."""

    immutable: ClassVar[tuple[str, ...]] = ("selector", "completionMode")
    default_propagation: str = "Background"
    selectable = frozenset({"status.successful"})

    def default(self, obj: Json) -> None:
        """Its pods are marked with the job's uid, unless the owner brings a selector."""
        spec = obj.setdefault("spec", {})
        uid = obj["metadata"].get("uid")
        if uid and not spec.get("manualSelector") and not spec.get("selector"):
            own = {"batch.kubernetes.io/controller-uid": uid}
            spec["selector"] = {"matchLabels": own}
            template = spec.setdefault("template", {})
            metadata = template.get("metadata") or {}
            name = obj["metadata"].get("name") or ""
            marks = {**own, "controller-uid": uid, "batch.kubernetes.io/job-name": name, "job-name": name}
            metadata["labels"] = {**(metadata.get("labels") or {}), **marks}
            template["metadata"] = metadata
        super().default(obj)

    def default_spec(self, spec: Json) -> None:
        """Once, with six more tries."""
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)

    def fields(self, obj: Json) -> dict[str, str]:
        """How often it succeeded."""
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def validate(self, obj: Json) -> list[FieldError]:
        """A job's pods end; restarting them always makes no sense."""
        problems = super().validate(obj)
        pod: Any = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
        if pod.get("restartPolicy") == "Always":
            at = FieldPath("spec").child("template").child("spec").child("restartPolicy")
            problems.append(FieldError.not_supported(at, "Always", ("OnFailure", "Never")))
        return problems


class CronJobStrategy(Strategy):
    """batch/v1 CronJob: data, with defaults."""

    has_status: bool = True
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Keep a little history, let runs overlap."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = (spec.get("jobTemplate") or {}).get("spec") or {}
        pod = (template.get("template") or {}).get("spec")
        if isinstance(pod, dict):
            default_pod_spec(pod)

    def prepare_create(self, obj: Json) -> None:
        """Its controller has not seen it yet."""
        obj["status"] = {}
