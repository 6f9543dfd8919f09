"""lifecycle.k8s.io/v1alpha1 (KEP-5683): a transition says what may be done to nodes, an event requests it on one node.

    Pending --> Claimed --> Succeeded | Failed | SlaExpired
    Pending --> Failed

A record keeps what the finished events of one node came to, after the events themselves are gone.

The group is a setting (`--lifecycle-api-group`): `api_version(group)` gives an object's apiVersion for one.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kube_fairlead.api import nodeselectors, reserved
from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import NodeSelector
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Time, always, mapping, named

__all__ = [
    "LEGAL_MOVES",
    "TERMINAL",
    "ClaimStatus",
    "FrozenTransition",
    "LifecycleEvent",
    "LifecycleEventSpec",
    "LifecycleEventStatus",
    "LifecycleTransition",
    "LifecycleTransitionSpec",
    "NodeLifecycleRecord",
    "PodOutcome",
    "Progress",
    "RecordEntry",
    "Requester",
    "RequesterSource",
    "api_version",
]


def api_version(group: str = reserved.LIFECYCLE_GROUP) -> str:
    """The apiVersion of lifecycle objects when the kinds live in this group."""
    return f"{group}/{reserved.LIFECYCLE_VERSION}"


class ClaimStatus(enum.StrEnum):
    """Where an event stands."""

    PENDING = "Pending"  # not claimed; an empty status means the same
    CLAIMED = "Claimed"  # exactly one claimant carries it out
    SUCCEEDED = "Succeeded"  # terminal
    FAILED = "Failed"  # terminal
    SLA_EXPIRED = "SlaExpired"  # terminal: the deadline came first


LEGAL_MOVES: Final[Mapping[ClaimStatus, frozenset[ClaimStatus]]] = MappingProxyType(
    {
        ClaimStatus.PENDING: frozenset({ClaimStatus.CLAIMED, ClaimStatus.FAILED}),
        ClaimStatus.CLAIMED: frozenset({ClaimStatus.SUCCEEDED, ClaimStatus.FAILED, ClaimStatus.SLA_EXPIRED}),
        ClaimStatus.SUCCEEDED: frozenset(),
        ClaimStatus.FAILED: frozenset(),
        ClaimStatus.SLA_EXPIRED: frozenset(),
    }
)
TERMINAL: Final = frozenset(status for status, moves in LEGAL_MOVES.items() if not moves)


class LifecycleTransitionSpec(Part):
    """One transition from a start to an end state, which nodes know it, and who carries it out. Immutable."""

    start: str = always("")
    end: str = always("")
    # Exactly one of these three is set.
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    sla: str | None = None  # a Go duration
    driver: str = always("")

    @property
    def sla_duration(self) -> dt.timedelta | None:
        """The SLA as a length of time; None without one. A ValueError says what is wrong with a malformed one."""
        return None if self.sla is None else api_time.parse_duration(self.sla)

    def covers(self, node_name: str, node_labels: Mapping[str, str]) -> bool:
        """Whether the node of this name and labels knows the transition."""
        if self.node_name is not None:
            return self.node_name == node_name
        if self.node_selector is not None:
            return nodeselectors.selects(self.node_selector, node_name, node_labels)
        return bool(self.all_nodes)


class LifecycleTransition(KubeObject):
    """What may be done to nodes: from a start to an end state, carried out by a driver."""

    api_version: str = always(api_version())
    kind: str = always("LifecycleTransition")
    spec: LifecycleTransitionSpec = always(LifecycleTransitionSpec())


class LifecycleEventSpec(Part):
    """The requested transition, and the node. Immutable."""

    transition_name: str = always("")
    binding_node: str = always("")


class FrozenTransition(Part):
    """The transition as it was when the event was claimed; later changes to it do not count."""

    uid: str = ""
    start: str = ""
    end: str = ""


class Progress(Part):
    """How far the driver has come: `done` of `total`, counted in `unit`."""

    done: int = always(0)
    total: int = always(0)
    unit: str = ""


class PodOutcome(Part):
    """One pod that a driver had to move: how many evictions were requested, and what blocked it last."""

    MERGE_KEY = ("uid",)

    namespace: str = ""
    name: str = always("")
    uid: str = always("")
    state: str = ""  # the driver's word, such as Gone, Leaving, Blocked or Waiting
    attempts: int = 0
    blocked_by: str = ""  # stays when the pod has gone


class LifecycleEventStatus(Part):
    """How an event is being carried out.

    Everything is set once, but for the message, the progress, the pods, and since when the driver is out of reach.
    """

    claim_status: str = ""
    driver: str = ""
    sla: Time | None = None  # the deadline
    claimed_by: str = ""
    node_uid: str = named("nodeUID")
    transition: FrozenTransition | None = None
    options: dict[str, str] = mapping()  # the driver's options: the event's annotations at the claim
    first_seen_time: Time | None = None
    sequence: int = 0  # the resourceVersion under which a claimant first saw the event: its place in the queue
    claim_time: Time | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    driver_unreachable_time: Time | None = None
    message: str = ""
    progress: Progress | None = None
    pods: tuple[PodOutcome, ...] = ()


class LifecycleEvent(KubeObject):
    """Requests a transition on one node, and holds its result."""

    api_version: str = always(api_version())
    kind: str = always("LifecycleEvent")
    spec: LifecycleEventSpec = always(LifecycleEventSpec())
    status: LifecycleEventStatus = LifecycleEventStatus()

    @property
    def claim_status(self) -> ClaimStatus:
        """Where the event stands; a ValueError for a status that this version does not know."""
        return ClaimStatus(self.status.claim_status or ClaimStatus.PENDING)

    @property
    def finished(self) -> bool:
        """Whether the event is in a terminal state."""
        return self.claim_status in TERMINAL


class RequesterSource(enum.StrEnum):
    """How the requester of an event is known."""

    ADMISSION = "Admission"  # the user of the create request, recorded by the API server
    FIELD_MANAGER = "FieldManager"  # the program that created it, by its own word


class Requester(Part):
    """The requester of an event, and how it is known."""

    name: str = always("")
    source: str = always("")


class RecordEntry(Part):
    """What one finished event came to. It never changes, but its pods may be left out to save room."""

    MERGE_KEY = ("event_uid",)

    event_uid: str = always("", name="eventUID")
    event_name: str = always("")
    transition_name: str = always("")
    start: str = ""
    end: str = ""
    node_uid: str = named("nodeUID")  # distinguishes nodes of the same name
    driver: str = ""
    claimed_by: str = ""
    requested_by: Requester | None = None
    request_time: Time | None = None
    claim_time: Time | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    sequence: int = 0  # the resourceVersion of the finished event: its place among those of one second
    result: str = always("")
    message: str = ""
    progress: Progress | None = None
    pods: tuple[PodOutcome, ...] = ()
    pods_omitted: int = 0


class NodeLifecycleRecord(KubeObject):
    """What the finished events of the node of this name came to, newest first. It outlives events and node."""

    api_version: str = always(api_version())
    kind: str = always("NodeLifecycleRecord")
    entries: tuple[RecordEntry, ...] = always(())
    dropped_entries: int = 0  # older ones, dropped for space or after their retention time
