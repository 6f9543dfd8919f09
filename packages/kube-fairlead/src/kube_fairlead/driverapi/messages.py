"""What agent and driver tell each other, as plain data. `codec` spells it for the wire."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from kube_fairlead.api.core_v1 import NodeSelector

__all__ = ["OfferedTransition", "PluginInfo", "PodReport", "Progress", "Reached", "Work"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """Who a plugin says it is."""

    type: str
    name: str
    endpoint: str = ""  # empty: the registration socket itself
    supported_versions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTransition:
    """A transition that a driver carries out. With neither node name nor selector it is for all nodes."""

    name: str
    start: str
    end: str
    sla: str = ""  # a Go duration
    node_name: str = ""
    node_selector: NodeSelector | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One event to carry out. The uid is the key of idempotence."""

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
    """The state that a driver says a node has reached."""

    state: str
    node_name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """One pod that a driver has to move."""

    namespace: str
    name: str
    uid: str
    state: str = ""  # Gone, Leaving, Blocked or Waiting
    attempts: int = 0
    blocked_by: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a driver has come; a total of 0 means that it does not know.

    Pods are those it has to move, each time all of them; none means that there is nothing new to say of them.
    """

    done: int = 0
    total: int = 0
    unit: str = ""
    message: str = ""
    pods: tuple[PodReport, ...] = ()
