"""Pods: what runs, where, and how it ends.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

import enum

from kube_fairlead.api.core_v1.nodes import NodeSelector
from kube_fairlead.api.meta import KubeObject, ObjectMeta
from kube_fairlead.api.parts import IntOrString, Part, Quantities, Time, always, mapping, named

__all__ = [
    "Affinity",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EmptyDirVolumeSource",
    "EnvVar",
    "EphemeralContainer",
    "ExecAction",
    "HTTPGetAction",
    "HTTPHeader",
    "HostIP",
    "HostPathVolumeSource",
    "Lifecycle",
    "LifecycleHandler",
    "NodeAffinity",
    "PersistentVolumeClaimVolumeSource",
    "Pod",
    "PodCondition",
    "PodIP",
    "PodPhase",
    "PodReadinessGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "Probe",
    "ResourceRequirements",
    "SleepAction",
    "TCPSocketAction",
    "Toleration",
    "Volume",
    "VolumeMount",
]


class EnvVar(Part):
    """An environment variable with a value of its own; other sources are kept, not named."""

    MERGE_KEY = ("name",)

    name: str = ""
    value: str = ""


class ContainerPort(Part):
    """A port a container listens on."""

    MERGE_KEY = ("container_port", "protocol")

    name: str = ""
    host_port: int = 0
    container_port: int = always(0)
    protocol: str = ""
    host_ip: str = named("hostIP")


class ResourceRequirements(Part):
    """What a container may use and is promised."""

    limits: Quantities = mapping()
    requests: Quantities = mapping()


class VolumeMount(Part):
    """Where a container sees a volume."""

    MERGE_KEY = ("mount_path",)

    name: str = ""
    read_only: bool = False
    mount_path: str = ""
    sub_path: str = ""


class ExecAction(Part):
    """A command run inside a container."""

    command: tuple[str, ...] = ()


class HTTPHeader(Part):
    """A header sent with an HTTP action."""

    name: str = ""
    value: str = ""


class HTTPGetAction(Part):
    """An HTTP request sent to a container."""

    path: str = ""
    port: IntOrString = always(0)
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Part):
    """A connection opened to a container."""

    port: IntOrString = always(0)
    host: str = ""


class SleepAction(Part):
    """A pause."""

    seconds: int = always(0)


class LifecycleHandler(Part):
    """What a hook does; exactly one is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Part):
    """A container's hooks."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Probe(Part):
    """A periodic check of a container. Its handler is kept, not typed."""

    initial_delay_seconds: int = 0
    period_seconds: int = 0


class Container(Part):
    """One container of a pod."""

    MERGE_KEY = ("name",)

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()
    readiness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    image_pull_policy: str = ""


class EphemeralContainer(Container):
    """A container put into a running pod for debugging."""

    target_container_name: str = ""


class EmptyDirVolumeSource(Part):
    """Scratch space that lives and dies with the pod."""

    medium: str = ""
    size_limit: str | int | float | None = None


class HostPathVolumeSource(Part):
    """A path on the node."""

    path: str = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(Part):
    """A claim on persistent storage."""

    claim_name: str = ""
    read_only: bool = False


class Volume(Part):
    """A volume; the sources that no component looks at are kept, not named."""

    MERGE_KEY = ("name",)

    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None


class Toleration(Part):
    """Which taints a pod bears; an empty key with `Exists` bears all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeAffinity(Part):
    """Which nodes a pod may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Part):
    """Scheduling constraints; those between pods are kept, not named."""

    node_affinity: NodeAffinity | None = None


class PodReadinessGate(Part):
    """A condition that must be true before the pod counts as ready."""

    condition_type: str = ""


class PodSpec(Part):
    """What a pod should be."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: dict[str, str] = mapping()
    service_account_name: str = ""
    node_name: str = ""
    host_network: bool = False
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()


class PodPhase(enum.StrEnum):
    """Where a pod is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodCondition(Part):
    """One aspect of a pod's state."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Part):
    """Not started yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Part):
    """Started and not ended."""

    started_at: Time | None = None


class ContainerStateTerminated(Part):
    """Ended."""

    exit_code: int = always(0)
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = named("containerID")


class ContainerState(Part):
    """Exactly one is set; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Part):
    """How one container is."""

    MERGE_KEY = ("name",)

    name: str = always("")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = always(False)
    restart_count: int = always(0)
    image: str = always("")
    image_id: str = always("", name="imageID")
    container_id: str = named("containerID")
    started: bool | None = None


class PodIP(Part):
    """An address of a pod."""

    MERGE_KEY = ("ip",)

    ip: str = ""


class HostIP(Part):
    """An address of a pod's node."""

    MERGE_KEY = ("ip",)

    ip: str = ""


class PodStatus(Part):
    """What a pod is."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = named("hostIP")
    host_ips: tuple[HostIP, ...] = named("hostIPs", ())
    pod_ip: str = named("podIP")
    pod_ips: tuple[PodIP, ...] = named("podIPs", ())
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


class Pod(KubeObject):
    """A group of containers on one node."""

    api_version: str = always("v1")
    kind: str = always("Pod")
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> PodCondition | None:
        """The condition of a type, if it is there."""
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    @property
    def finished(self) -> bool:
        """Whether all containers have ended for good."""
        return self.status.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}


class PodTemplateSpec(Part):
    """The pod a controller makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
