"""Workloads: deployments and similar kinds, jobs, autoscalers, disruption budgets.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kube_fairlead.api import time
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.printer_columns import human_duration
from kube_fairlead_apiserver.printers.autoscaling import metrics_text
from kube_fairlead_apiserver.printers.columns import (
    NONE,
    UNSET,
    Printer,
    age,
    columns,
    containers,
    controller_of,
    dig,
    has_condition,
    labels_text,
    listed,
    name_of,
    selector_text,
    since,
)

__all__ = ["WORKLOADS"]


def _number(obj: Json, *path: str) -> int:
    return int(dig(obj, *path, default=0))


def _deployment(obj: Json, now: dt.datetime) -> list[Any]:
    selector = selector_text(dig(obj, "spec", "selector"), empty="", invalid="<invalid>")
    return [
        name_of(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        age(obj, now),
        *containers(dig(obj, "spec", "template")),
        selector,
    ]


def _replica_counts(obj: Json, now: dt.datetime) -> list[Any]:
    return [
        name_of(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        age(obj, now),
        *containers(dig(obj, "spec", "template")),
    ]


def _replica_set(obj: Json, now: dt.datetime) -> list[Any]:
    return [*_replica_counts(obj, now), selector_text(dig(obj, "spec", "selector"))]


def _replication_controller(obj: Json, now: dt.datetime) -> list[Any]:
    return [*_replica_counts(obj, now), labels_text(dig(obj, "spec", "selector"))]


def _stateful_set(obj: Json, now: dt.datetime) -> list[Any]:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age(obj, now), *containers(dig(obj, "spec", "template"))]


def _daemon_set(obj: Json, now: dt.datetime) -> list[Any]:
    return [
        name_of(obj),
        _number(obj, "status", "desiredNumberScheduled"),
        _number(obj, "status", "currentNumberScheduled"),
        _number(obj, "status", "numberReady"),
        _number(obj, "status", "updatedNumberScheduled"),
        _number(obj, "status", "numberAvailable"),
        labels_text(dig(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *containers(dig(obj, "spec", "template")),
        selector_text(dig(obj, "spec", "selector")),
    ]


def _job(obj: Json, now: dt.datetime) -> list[Any]:
    succeeded = _number(obj, "status", "succeeded")
    wanted = dig(obj, "spec", "completions")
    parallelism = _number(obj, "spec", "parallelism")
    if wanted is not None:
        completions = f"{succeeded}/{wanted}"
    elif parallelism > 1:
        completions = f"{succeeded}/1 of {parallelism}"
    else:
        completions = f"{succeeded}/1"
    return [
        name_of(obj),
        _job_status(obj),
        completions,
        _job_duration(obj, now),
        age(obj, now),
        *containers(dig(obj, "spec", "template")),
        selector_text(dig(obj, "spec", "selector")),
    ]


def _job_status(obj: Json) -> str:
    for condition in ("Complete", "Failed"):
        if has_condition(obj, condition):
            return condition
    if dig(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if has_condition(obj, condition):
            return condition
    return "Running"


def _job_duration(obj: Json, now: dt.datetime) -> str:
    started, completed = dig(obj, "status", "startTime"), dig(obj, "status", "completionTime")
    if not started:
        return ""
    return human_duration((time.parse_time(completed) if completed else now) - time.parse_time(started))


def _cron_job(obj: Json, now: dt.datetime) -> list[Any]:
    last = dig(obj, "status", "lastScheduleTime")
    suspend = dig(obj, "spec", "suspend")
    return [
        name_of(obj),
        dig(obj, "spec", "schedule", default=""),
        dig(obj, "spec", "timeZone", default=NONE),
        UNSET if suspend is None else str(bool(suspend)),
        len(listed(obj, "status", "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(dig(obj, "spec", "jobTemplate", "spec", "template")),
        selector_text(dig(obj, "spec", "jobTemplate", "spec", "selector")),
    ]


def _pod_template(obj: Json, _now: dt.datetime) -> list[Any]:
    labels = labels_text(dig(obj, "template", "metadata", "labels"))
    return [name_of(obj), *containers(dig(obj, "template")), labels]


def _controller_revision(obj: Json, now: dt.datetime) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        kind = GroupVersionKind.of(owner.get("apiVersion", ""), owner.get("kind", "")).group_kind
        controller = f"{str(kind).lower()}/{owner.get('name', '')}"
    return [name_of(obj), controller, _number(obj, "revision"), age(obj, now)]


def _autoscaler(obj: Json, now: dt.datetime) -> list[Any]:
    target = dig(obj, "spec", "scaleTargetRef", default={})
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        metrics_text(listed(obj, "spec", "metrics"), listed(obj, "status", "currentMetrics")),
        str(dig(obj, "spec", "minReplicas", default=UNSET)),
        _number(obj, "spec", "maxReplicas"),
        _number(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _disruption_budget(obj: Json, now: dt.datetime) -> list[Any]:
    return [
        name_of(obj),
        str(dig(obj, "spec", "minAvailable", default="N/A")),
        str(dig(obj, "spec", "maxUnavailable", default="N/A")),
        _number(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _scale(obj: Json, now: dt.datetime) -> list[Any]:
    return [name_of(obj), _number(obj, "spec", "replicas"), _number(obj, "status", "replicas"), age(obj, now)]


_CONTAINERS = ("Containers+", "Images+", "Selector+")
_REPLICAS = columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_CONTAINERS)

WORKLOADS: dict[tuple[str, str], Printer] = {
    ("", "PodTemplate"): Printer(columns("Name", "Containers", "Images", "Pod Labels"), _pod_template),
    ("", "ReplicationController"): Printer(_REPLICAS, _replication_controller),
    ("apps", "ControllerRevision"): Printer(columns("Name", "Controller", "Revision", "Age"), _controller_revision),
    ("apps", "DaemonSet"): Printer(
        columns(
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            *_CONTAINERS,
        ),
        _daemon_set,
    ),
    ("apps", "Deployment"): Printer(
        columns("Name", "Ready", "Up-to-date", "Available", "Age", *_CONTAINERS), _deployment
    ),
    ("apps", "ReplicaSet"): Printer(_REPLICAS, _replica_set),
    ("apps", "StatefulSet"): Printer(columns("Name", "Ready", "Age", "Containers+", "Images+"), _stateful_set),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(
        columns("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"), _autoscaler
    ),
    ("autoscaling", "Scale"): Printer(columns("Name", "Desired:integer", "Available:integer", "Age"), _scale),
    ("batch", "CronJob"): Printer(
        columns(
            "Name",
            "Schedule",
            "Timezone",
            "Suspend:boolean",
            "Active:integer",
            "Last Schedule",
            "Age",
            *_CONTAINERS,
        ),
        _cron_job,
    ),
    ("batch", "Job"): Printer(columns("Name", "Status", "Completions", "Duration", "Age", *_CONTAINERS), _job),
    ("policy", "PodDisruptionBudget"): Printer(
        columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"), _disruption_budget
    ),
}
