"""The messages between agent and driver, as plain data. `codec` converts them to protobuf."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from kube_fairlead.api.core_v1 import NodeSelector

__all__ = ["OfferedTransition", "PluginInfo", "PodReport", "Progress", "Reached", "Work"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """The name, type and endpoint that a plugin registers with."""

    type: str
    name: str
    endpoint: str = ""  # empty: the registration socket itself
    supported_versions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTransition:
    """A transition that a driver offers. Without a node name and a selector it is for all nodes."""

    name: str
    start: str
    end: str
    sla: str = ""  # a Go duration
    node_name: str = ""
    node_selector: NodeSelector | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One event for the driver to carry out. Calls with the same event uid are for the same work."""

    event_uid: str
    event_name: str
    node_name: str
    node_uid: str
    transition_name: str
    start: str
    end: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deadline: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The state that a driver says a node has reached. Only a driver inside the claimant's process adds a message."""

    state: str
    node_name: str
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """One pod that a driver evicts or moves, and its result so far."""

    namespace: str
    name: str
    uid: str
    state: str = ""  # Gone, Leaving, Blocked or Waiting
    attempts: int = 0
    blocked_by: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a driver. A total of 0 means that the total is not known.

    `pods` lists all pods that the driver evicts or moves. An empty list means that they have not changed.
    """

    done: int = 0
    total: int = 0
    unit: str = ""
    message: str = ""
    pods: tuple[PodReport, ...] = ()
