"""Jobs and CronJobs.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/batch/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/batch/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/batch/job/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/batch/cronjob/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/batch/v1/zz_generated.validations.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.registry.strategies import field_checks, templates
from kube_fairlead_apiserver.registry.strategies.cron import schedule_error
from kube_fairlead_apiserver.registry.strategies.pod_failure_policy import validate_failure_policy
from kube_fairlead_apiserver.registry.strategies.pod_spec import default_pod_spec
from kube_fairlead_apiserver.registry.strategies.success_policy import validate_success_policy
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["CronJobStrategy", "JobStrategy"]

_SPEC: Final = FieldPath("spec")
_UID: Final = "batch.kubernetes.io/controller-uid"
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_FIXED: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
# Scheduling fields of the template that a suspended job may change, for queueing systems.
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")
_MAX_INT32: Final = 2**31 - 1
_MAX_MANAGED_BY: Final = 63
_MAX_INDEXED: Final = 100_000
_MAX_CRON_NAME: Final = 52
_TIME_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)


class JobStrategy(Strategy):
    """batch/v1 Job: the server generates its selector, by its uid."""

    has_status: bool = True
    tracks_generation: bool = True
    default_propagation: str = "Background"
    selectable = frozenset({"status.successful"})

    def default(self, obj: Json) -> None:
        """Defaults: one completion, six retries, labels from the template."""
        spec = obj.setdefault("spec", {})
        _default_spec(spec)
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)
        labels = templates.template_labels(spec)
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_create(self, obj: Json) -> None:
        """Generate the selector and the pod labels with the job's uid, unless manualSelector is set."""
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        if spec.get("manualSelector"):
            return
        marks = dict(_marks(obj))
        template = spec.get("template") or {}
        metadata = template.get("metadata") or {}
        metadata["labels"] = {**marks, **(metadata.get("labels") or {})}
        template["metadata"] = metadata
        spec["template"] = template
        selector = spec.get("selector") or {}
        selector["matchLabels"] = {_UID: marks[_UID], **(selector.get("matchLabels") or {})}
        spec["selector"] = selector

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields."""
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the selector, the template and the policies."""
        spec = obj.get("spec") or {}
        problems = [] if spec.get("manualSelector") else _validate_marks(obj)
        problems += _validate_job(spec, _SPEC)
        selector = spec.get("selector")
        if selector is None:
            problems.append(FieldError.required(_SPEC.child("selector"), ""))
        else:
            problems += validate_label_selector(selector, _SPEC.child("selector"))
        problems += templates.is_selected(selector, spec, _SPEC)
        name, completions = obj["metadata"].get("name") or "", spec.get("completions") or 0
        last = f"{name}-{completions - 1}"
        if spec.get("completionMode") == "Indexed" and completions > 0 and names.dns1123_label(last):
            text = f"will not able to create pod with invalid DNS label: {last}"
            problems.append(FieldError.invalid(FieldPath("metadata", "name"), name, text))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Most of the spec is immutable; parallelism may change."""
        problems = self.validate(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if spec.get("completionMode") != "Indexed":
            problems += field_checks.changed(spec, before, _SPEC, "completions")
        elif spec.get("completions") not in {None, before.get("completions"), spec.get("parallelism")}:
            text = "can only be modified in tandem with spec.parallelism"
            problems.append(FieldError.invalid(_SPEC.child("completions"), spec["completions"], text))
        problems += _validate_template_kept(spec.get("template") or {}, old)
        return problems + field_checks.changed(spec, before, _SPEC, *_FIXED)


def _default_spec(spec: Json) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        default_pod_spec(template.setdefault("spec", {}))
        if template.get("metadata") is None:
            template["metadata"] = {}
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")


def _marks(obj: Json) -> Iterator[tuple[str, str]]:
    """Yield the labels of a job's pods, with their current and legacy keys."""
    for label, field in (("controller-uid", "uid"), ("job-name", "name")):
        value = obj["metadata"].get(field) or ""
        yield label, value
        yield f"batch.kubernetes.io/{label}", value


def _validate_marks(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    labels = templates.template_labels(spec)
    path = _SPEC.child("template", "metadata", "labels")
    problems: list[FieldError] = []
    for label, value in _marks(obj):
        if label not in labels:
            problems.append(FieldError.required(path.key(label), f"must be '{value}'"))
        elif labels[label] != value:
            problems.append(FieldError.invalid(path.key(label), labels, f"must be '{value}'"))
    selector = spec.get("selector")
    marked = {"template": {"metadata": {"labels": dict(_marks(obj))}}}
    if selector is not None and templates.is_selected(selector, marked, _SPEC):
        problems.append(FieldError.invalid(_SPEC.child("selector"), selector, "`selector` not auto-generated"))
    return problems


def _validate_job(spec: Json, path: FieldPath) -> list[FieldError]:
    problems = field_checks.not_negative(spec, path, *_COUNTS)
    managed_by = spec.get("managedBy")
    if managed_by is not None:
        problems += names.domain_prefixed_path(managed_by, path.child("managedBy"))
        if len(managed_by) > _MAX_MANAGED_BY:
            problems.append(FieldError.too_long(path.child("managedBy"), managed_by, _MAX_MANAGED_BY))
    problems += field_checks.one_of(spec, path, "completionMode", ("NonIndexed", "Indexed"))
    problems += _validate_indexes(spec, path)
    policy = spec.get("podFailurePolicy")
    if policy is not None:
        problems += validate_failure_policy(policy, spec, path.child("podFailurePolicy"))
    success, completions = spec.get("successPolicy"), spec.get("completions")
    if success is not None and completions is not None and spec.get("completionMode") == "Indexed":
        problems += validate_success_policy(success, completions, path.child("successPolicy"))
    allowed = ("Failed",) if policy is not None else ("Failed", "TerminatingOrFailed")
    problems += field_checks.one_of(spec, path, "podReplacementPolicy", allowed)
    problems += templates.validate_template(spec.get("template") or {}, path.child("template"))
    return problems + _validate_restarts(spec, path.child("template", "spec", "restartPolicy"))


def _validate_indexes(spec: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if failed is not None and per_index is None:
        at = path.child("backoffLimitPerIndex")
        problems.append(FieldError.required(at, "when maxFailedIndexes is specified"))
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            problems.append(FieldError.required(path.child("completions"), "when completion mode is Indexed"))
        elif failed is not None and failed > spec["completions"]:
            at = path.child("maxFailedIndexes")
            problems.append(FieldError.invalid(at, failed, "must be less than or equal to completions"))
        if (spec.get("parallelism") or 0) > _MAX_INDEXED:
            text = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
            problems.append(FieldError.invalid(path.child("parallelism"), spec["parallelism"], text))
        return problems
    return problems + [
        FieldError.invalid(path.child(field), spec[field], "requires indexed completion mode")
        for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        if spec.get(field) is not None
    ]


def _validate_restarts(spec: Json, path: FieldPath) -> list[FieldError]:
    """Validate that the restart policy is not Always."""
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or "Always"
    if policy == "Always":
        return [FieldError.required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in {"OnFailure", "Never"}:
        return [FieldError.not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [FieldError.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _validate_template_kept(template: Json, old: Json) -> list[FieldError]:
    before, path = (old.get("spec") or {}).get("template") or {}, _SPEC.child("template")
    if template == before:
        return []
    if not _is_idle(old):
        return [FieldError.invalid(path, template, "field is immutable")]
    pod = template.get("spec") or {}
    same = pod == _as_far_as_mutable(template, before).get("spec")
    return [] if same else [FieldError.invalid(path.child("spec"), pod, "field is immutable")]


def _is_idle(job: Json) -> bool:
    """Return whether a job is suspended without pods, so that its scheduling fields may change."""
    status = job.get("status") or {}
    held = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in status.get("conditions") or ())
    return bool(job["spec"].get("suspend")) and not status.get("active") and (held or not status.get("startTime"))


def _as_far_as_mutable(template: Json, old: Json) -> Json:
    """Return the old template, with the changes that a suspended job may make."""
    before: Json = copy_json(old)
    pod, was = template.get("spec") or {}, before.setdefault("spec", {})
    _carry(pod, was, *_DIRECTIVES)
    affinity = was.get("affinity") or {}
    _carry(pod.get("affinity") or {}, affinity, "nodeAffinity")
    if affinity or pod.get("affinity") is not None:
        was["affinity"] = affinity
    else:
        was.pop("affinity", None)
    for field in ("containers", "initContainers"):
        for container, earlier in zip(pod.get(field) or (), was.get(field) or (), strict=False):
            if container.get("name") == earlier.get("name"):
                _carry(container, earlier, "resources")
    return before


def _carry(source: Json, target: Json, *fields: str) -> None:
    for field in fields:
        if field in source:
            target[field] = source[field]
        else:
            target.pop(field, None)


class CronJobStrategy(Strategy):
    """batch/v1 CronJob."""

    has_status: bool = True
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Defaults: history limits, concurrencyPolicy Allow."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.get("jobTemplate")
        if isinstance(template, dict):
            if template.get("metadata") is None:
                template["metadata"] = {}
            _default_spec(template.setdefault("spec", {}))

    def prepare_create(self, obj: Json) -> None:
        """A new CronJob has an empty status."""
        obj["status"] = {}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate a new CronJob; the name leaves room for the suffix of its jobs."""
        name = obj["metadata"].get("name") or ""
        problems = _validate_cron(obj.get("spec") or {}, {})
        if len(name) > _MAX_CRON_NAME:
            text = f"must be no more than {_MAX_CRON_NAME} characters"
            problems.append(FieldError.invalid(FieldPath("metadata", "name"), name, text))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change; unchanged invalid fields are accepted."""
        return _validate_cron(obj.get("spec") or {}, old.get("spec") or {})


def _validate_cron(spec: Json, before: Json) -> list[FieldError]:
    problems = _validate_schedule(spec, before)
    problems += field_checks.not_negative(
        spec, _SPEC, "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    zone = spec.get("timeZone")
    if zone is not None and zone != before.get("timeZone"):
        problems += _validate_zone(zone, _SPEC.child("timeZone"))
    problems += field_checks.one_of(spec, _SPEC, "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    job, path = (spec.get("jobTemplate") or {}).get("spec") or {}, _SPEC.child("jobTemplate", "spec")
    problems += _validate_job(job, path)
    if job.get("selector") is not None:
        text = "`selector` will be auto-generated"
        problems.append(FieldError.invalid(path.child("selector"), job["selector"], text))
    if job.get("manualSelector"):
        problems.append(FieldError.not_supported(path.child("manualSelector"), True, ("nil", "false")))
    return problems


def _validate_schedule(spec: Json, before: Json) -> list[FieldError]:
    schedule, path = spec.get("schedule") or "", _SPEC.child("schedule")
    if not schedule:
        return [FieldError.required(path, "")]
    error = schedule_error(schedule)
    problems = field_checks.complaints(path, schedule, [error] if error else [])
    if "TZ" in schedule:
        if "TZ" not in (before.get("schedule") or ""):
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            problems.append(FieldError.invalid(path, schedule, text))
        elif spec.get("timeZone") is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            problems.append(FieldError.invalid(path, schedule, text))
    return problems


def _validate_zone(zone: str, path: FieldPath) -> list[FieldError]:
    """Return what is wrong with the form of a time zone's name; the known zones depend on the machine's database."""
    if not zone:
        return [FieldError.invalid(path, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _TIME_ZONE_PART.fullmatch(part):
            return [FieldError.invalid(path, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [FieldError.invalid(path, zone, text)]
    return []
