"""apps/v1: the controllers that keep pods running.

Upstream: k8s.io/api@v0.36.4/apps/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1 import PodTemplateSpec
from kube_fairlead.api.meta import KubeObject, LabelSelector
from kube_fairlead.api.parts import IntOrString, Part, Time, always

__all__ = [
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDeployment",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "WorkloadCondition",
]


class WorkloadCondition(Part):
    """One aspect of a workload's state; all kinds here share the form, Deployments add `last_update_time`."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    last_update_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class RollingUpdateDeployment(Part):
    """How many pods a rollout may add or take away at a time."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(Part):
    """How a Deployment replaces its pods."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Part):
    """What a Deployment should be."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Part):
    """What a Deployment is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()
    collision_count: int | None = None


class Deployment(KubeObject):
    """Replicated pods that can be rolled over to a new template."""

    api_version: str = always("apps/v1")
    kind: str = always("Deployment")
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Part):
    """What a ReplicaSet should be."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Part):
    """What a ReplicaSet is."""

    replicas: int = always(0)
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicaSet(KubeObject):
    """A number of equal pods."""

    api_version: str = always("apps/v1")
    kind: str = always("ReplicaSet")
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(Part):
    """What a StatefulSet should be."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = always("")
    pod_management_policy: str = ""
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0


class StatefulSetStatus(Part):
    """What a StatefulSet is."""

    observed_generation: int = 0
    replicas: int = always(0)
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()
    available_replicas: int = always(0)


class StatefulSet(KubeObject):
    """Pods with names and storage of their own."""

    api_version: str = always("apps/v1")
    kind: str = always("StatefulSet")
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Part):
    """What a DaemonSet should be."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(Part):
    """What a DaemonSet is."""

    current_number_scheduled: int = always(0)
    number_misscheduled: int = always(0)
    desired_number_scheduled: int = always(0)
    number_ready: int = always(0)
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class DaemonSet(KubeObject):
    """A pod on every node."""

    api_version: str = always("apps/v1")
    kind: str = always("DaemonSet")
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()
