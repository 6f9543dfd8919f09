"""Pods, budgets and nodes for the tests of draining."""

from __future__ import annotations

import datetime as dt
from typing import Any

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import (
    EmptyDirVolumeSource,
    Node,
    Pod,
    PodCondition,
    PodPhase,
    PodSpec,
    PodStatus,
    Volume,
)
from kube_fairlead.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kube_fairlead.api.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kube_fairlead.lifecycle.drain.filters import MIRROR_ANNOTATION

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
CONTROLLERS = {
    "none": (),
    "replicaset": (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="u", controller=True),),
    "daemonset": (OwnerReference(api_version="apps/v1", kind="DaemonSet", name="ds", uid="u", controller=True),),
    "old-daemonset": (
        OwnerReference(api_version="extensions/v1beta1", kind="DaemonSet", name="ds", uid="u", controller=True),
    ),
    "owner-only": (OwnerReference(api_version="apps/v1", kind="DaemonSet", name="ds", uid="u"),),
}


def pod(
    name: str = "p",
    *,
    namespace: str = "shop",
    controller: str = "replicaset",
    phase: str = PodPhase.RUNNING,
    ready: bool = True,
    emptydir: bool = False,
    mirror: bool = False,
    priority: int | None = None,
    labels: dict[str, str] | None = None,
    deleted: dt.datetime | None = None,
    grace: int | None = None,
    finalizers: tuple[str, ...] = (),
) -> Pod:
    conditions = (PodCondition(type="Ready", status="True" if ready else "False"),)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            labels=labels or {},
            annotations={MIRROR_ANNOTATION: "hash"} if mirror else {},
            owner_references=CONTROLLERS[controller],
            deletion_timestamp=deleted,
            deletion_grace_period_seconds=grace if deleted is not None else None,
            finalizers=finalizers,
        ),
        spec=PodSpec(
            node_name="n",
            priority=priority,
            volumes=(Volume(name="v", empty_dir=EmptyDirVolumeSource()),) if emptydir else (Volume(name="v"),),
        ),
        status=PodStatus(phase=phase, conditions=conditions),
    )


def budget(
    name: str = "b",
    *,
    namespace: str = "shop",
    labels: dict[str, str] | None = None,
    allowed: int = 0,
    version: str = "1",
    generation: int = 1,
    observed: int = 1,
    **status: Any,
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=f"uid-{name}", resource_version=version, generation=generation
        ),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels or {})),
        status=PodDisruptionBudgetStatus(observed_generation=observed, disruptions_allowed=allowed, **status),
    )


def node(
    *, cordoned: bool = False, annotations: dict[str, str] | None = None, written: tuple[dict[str, Any], ...] = ()
) -> Node:
    """A node; `written` is what each of its writers holds."""
    metadata: dict[str, Any] = {"name": "n", "uid": "node-uid", "resourceVersion": "7"}
    if annotations:
        metadata["annotations"] = annotations
    if written:
        metadata["managedFields"] = [
            {"manager": f"m-{number}", "operation": "Update", "fieldsV1": fields}
            for number, fields in enumerate(written)
        ]
    spec = {"unschedulable": True} if cordoned else {}
    return wire.from_dict(Node, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
