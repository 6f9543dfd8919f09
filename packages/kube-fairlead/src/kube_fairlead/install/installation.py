"""The choices of an installation, from which its manifests are made."""

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
    """How long pods may take to end when their machine shuts down: the kubelet's fields, in its spelling.

    Raises:
        ValueError: they contradict each other, or leave pods no time.
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
        """The content of the file for `fairlead agent --config`."""
        return {
            "shutdownGracePeriod": self.grace_period,
            "shutdownGracePeriodCriticalPods": self.critical_pods,
            "containerRuntimeEndpoint": self.runtime_endpoint,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The choices."""

    namespace: str = NAMESPACE
    image: str = f"fairlead:{kube_fairlead.__version__}"
    lifecycle_group: str = LIFECYCLE_GROUP
    lifecycle: bool = True
    claimer: bool = False  # a central claimer claims for nodes without a live agent, and drains them
    eviction_requests: bool = False  # drain drivers may create EvictionRequests, if the API server serves them
    out_of_service_taint: bool = False  # the manager may taint nodes that are off, so that their volumes are detached
    shutdown: ShutdownGrace | None = None  # agents end pods when their machine shuts down; None: the kubelet does
    finished_event_ttl: str = "1h"  # users and `kubectl wait` see results; the components' own default is 0s
    requester: RequesterMode = "check"  # whether policies check or record the user who requests an event
    fence: FenceMode = FenceMode.DENY
    own_node: OwnNodeMode = "deny"
    eviction_webhook: bool = True  # a webhook rejects evictions by drain drivers on other nodes
    clouds: tuple[Manager, ...] = ()
    fenced_clouds: tuple[OtherManager, ...] = ()  # managers that were installed otherwise, kept to their own nodes
    cluster_cidr: str = ""  # of pods, for managers that create routes
    cloud_policy: Literal["warn", "deny"] = "deny"
