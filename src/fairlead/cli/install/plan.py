"""What an installation is made of: the choices behind the manifests."""

from __future__ import annotations

import dataclasses
from typing import Literal

import fairlead
from fairlead.api.reserved import LIFECYCLE_GROUP
from fairlead.cloud.enforcement import Manager
from fairlead.election.fence import FenceMode

__all__ = ["AGENT", "DRAIN", "MANAGER", "NAMESPACE", "OwnNodeMode", "Plan"]

NAMESPACE = "fairlead-system"
AGENT = "fairlead-agent"
DRAIN = "fairlead-drain"
MANAGER = "fairlead-controller-manager"

OwnNodeMode = Literal["off", "warn", "deny"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to print."""

    namespace: str = NAMESPACE
    image: str = f"fairlead:{fairlead.__version__}"
    lifecycle_group: str = LIFECYCLE_GROUP
    lifecycle: bool = True
    claimer: bool = False  # the manager may claim for nodes that have no agent
    out_of_service_taint: bool = False  # the manager may let volumes of machines that are off be detached
    fence: FenceMode = FenceMode.DENY
    own_node: OwnNodeMode = "deny"
    clouds: tuple[Manager, ...] = ()
    cloud_policy: Literal["warn", "deny"] = "deny"
