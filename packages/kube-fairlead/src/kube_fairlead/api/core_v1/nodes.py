"""Nodes: the machines, what they promise, and what keeps pods away from them.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

import enum

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Quantities, Time, always, mapping, named

__all__ = [
    "AttachedVolume",
    "DaemonEndpoint",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeDaemonEndpoints",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "Taint",
    "TaintEffect",
]


class NodeSelectorRequirement(Part):
    """One condition on a node; the operator is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Part):
    """All of its conditions must hold; a term without conditions selects nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Part):
    """Any of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class TaintEffect(enum.StrEnum):
    """What a taint does to pods that do not bear it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Part):
    """Keeps pods off a node unless they tolerate it."""

    MERGE_KEY = ("key", "effect")

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Part):
    """What a node should be."""

    pod_cidr: str = named("podCIDR")
    pod_cidrs: tuple[str, ...] = named("podCIDRs", ())
    provider_id: str = named("providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Part):
    """One aspect of a node's state."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Part):
    """One address of a node."""

    MERGE_KEY = ("type", "address")

    type: str = ""
    address: str = ""


class DaemonEndpoint(Part):
    """A port a daemon listens on; Kubernetes spells this one with a capital."""

    port: int = always(0, name="Port")


class NodeDaemonEndpoints(Part):
    """Where the node's daemons listen."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSystemInfo(Part):
    """What runs the node; the boot id changes with every boot."""

    machine_id: str = always("", name="machineID")
    system_uuid: str = always("", name="systemUUID")
    boot_id: str = always("", name="bootID")
    kernel_version: str = always("")
    os_image: str = always("")
    container_runtime_version: str = always("")
    kubelet_version: str = always("")
    kube_proxy_version: str = always("")
    operating_system: str = always("")
    architecture: str = always("")


class AttachedVolume(Part):
    """A volume attached to the node."""

    MERGE_KEY = ("name",)

    name: str = ""
    device_path: str = always("")


class NodeStatus(Part):
    """What a node is."""

    capacity: Quantities = mapping()
    allocatable: Quantities = mapping()
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(KubeObject):
    """A machine that runs pods."""

    api_version: str = always("v1")
    kind: str = always("Node")
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type_: str) -> NodeCondition | None:
        """The condition of a type, if it is there."""
        return next((condition for condition in self.status.conditions if condition.type == type_), None)
