"""What an installation is made of: the choices behind the manifests."""

from __future__ import annotations

import dataclasses
from typing import Literal

import kube_fairlead
from kube_fairlead.api.reserved import LIFECYCLE_GROUP
from kube_fairlead.cloud.enforcement import Manager, OtherManager
from kube_fairlead.election.fence import FenceMode
from kube_fairlead.lifecycle.shutdown_config import read_shutdown_config

__all__ = [
    "AGENT",
    "CLAIMER",
    "DRAIN",
    "MANAGER",
    "NAMESPACE",
    "Installation",
    "OwnNodeMode",
    "RequesterMode",
    "ShutdownGrace",
]

NAMESPACE = "fairlead-system"
AGENT = "fairlead-agent"
DRAIN = "fairlead-drain"
MANAGER = "fairlead-controller-manager"
CLAIMER = "fairlead-claimer"

OwnNodeMode = Literal["off", "warn", "deny"]
RequesterMode = Literal["off", "check", "record"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownGrace:
    """How long pods get when their machine goes down: the kubelet's fields, in its spelling.

    Raises:
        ValueError: they contradict themselves, or end no pods.
    """

    grace_period: str
    critical_pods: str = "0s"
    runtime_endpoint: str = "unix:///run/containerd/containerd.sock"

    def __post_init__(self) -> None:
        if not read_shutdown_config(self.agent_config()).enabled:
            raise ValueError(f"a shutdown grace period of {self.grace_period} leaves pods no time; name a longer one")
        if not self.runtime_endpoint.startswith("unix:///"):
            raise ValueError(f"{self.runtime_endpoint!r} must be a unix socket, such as unix:///run/crio/crio.sock")

    def agent_config(self) -> dict[str, str]:
        """What `fairlead agent --config` is to read."""
        return {
            "shutdownGracePeriod": self.grace_period,
            "shutdownGracePeriodCriticalPods": self.critical_pods,
            "containerRuntimeEndpoint": self.runtime_endpoint,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What to print."""

    namespace: str = NAMESPACE
    image: str = f"fairlead:{kube_fairlead.__version__}"
    lifecycle_group: str = LIFECYCLE_GROUP
    lifecycle: bool = True
    claimer: bool = False  # somebody claims for nodes whose agent is away or that have none, and drains them
    eviction_requests: bool = False  # drain drivers may ask by EvictionRequest, where the API server has it
    out_of_service_taint: bool = False  # the manager may let volumes of machines that are off be detached
    shutdown: ShutdownGrace | None = None  # agents see pods out when their machine goes down
    finished_event_ttl: str = "1h"  # people and `kubectl wait` see results; the components' own default is 0s
    requester: RequesterMode = "check"  # whether policies see to it that events name the user who asked
    fence: FenceMode = FenceMode.DENY
    own_node: OwnNodeMode = "deny"
    eviction_webhook: bool = True  # evictions by drain drivers are kept to their own node too
    clouds: tuple[Manager, ...] = ()
    fenced_clouds: tuple[OtherManager, ...] = ()  # managers of others, kept to their own nodes
    cluster_cidr: str = ""  # of pods, for those of them that make routes
    cloud_policy: Literal["warn", "deny"] = "deny"
