"""The progress that operations report, and how they end. Plain values: a program matches on their types."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent

__all__ = [
    "AwaitingReady",
    "Ended",
    "EventChanged",
    "EventJoined",
    "EventRequested",
    "HeldBack",
    "MaintenanceStage",
    "Operation",
    "Outcome",
    "Result",
    "StageReached",
    "Started",
    "TransitionEnded",
    "Unclaimed",
    "ignore",
]


class Operation(enum.StrEnum):
    """What a transition of a node is requested for."""

    DRAIN = "drain"
    UNCORDON = "uncordon"


class Result(enum.StrEnum):
    """How an operation on one node ended."""

    SUCCEEDED = "Succeeded"
    REQUESTED = "Requested"  # the event exists; the caller does not wait for its end
    FAILED = "Failed"
    NOT_STARTED = "NotStarted"  # another node failed first


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation on one node ended, and why."""

    result: Result
    message: str = ""
    open_event: str = ""  # the name of the event, if it has not ended and stays

    @property
    def failed(self) -> bool:
        """Whether the node is not as requested, and no event is left that would make it so."""
        return self.result in {Result.FAILED, Result.NOT_STARTED}


class MaintenanceStage(enum.StrEnum):
    """How far the maintenance of one node is."""

    DRAINING = "Draining"
    DRAINED = "Drained"
    UNCORDONING = "Uncordoning"
    COMPLETE = "Complete"


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """The operation starts on a node.

    `observed_at`: when the nodes' availability was read that allowed it; None if the operation does not read it.
    """

    node: str
    observed_at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EventRequested:
    """A LifecycleEvent was created for a node."""

    node: str
    operation: Operation
    event: str  # its name


@dataclasses.dataclass(frozen=True, slots=True)
class EventJoined:
    """A node already has an unfinished LifecycleEvent of the transition, and the operation follows that one."""

    node: str
    operation: Operation
    event: str  # its name
    differences: str = ""  # how its options differ from the requested ones


@dataclasses.dataclass(frozen=True, slots=True)
class EventChanged:
    """The event of a node has a new state, or its claimant stopped or resumed renewing its Lease."""

    node: str
    operation: Operation
    event: LifecycleEvent
    summary: str  # its state in one line
    silence: str = ""  # since when its claimant has not renewed its Lease; empty while it renews it


@dataclasses.dataclass(frozen=True, slots=True)
class Unclaimed:
    """The event of a node is not claimed after the time that a running agent needs."""

    node: str
    operation: Operation
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class TransitionEnded:
    """One transition of a node has ended, or is not followed any more."""

    node: str
    operation: Operation
    outcome: Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class StageReached:
    """The maintenance of a node has reached a stage.

    `observed_at`: when the node was read that allowed it; None if the stage does not depend on the node.
    """

    node: str
    stage: MaintenanceStage
    observed_at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AwaitingReady:
    """The work on a node is done, and the node is not Ready."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class HeldBack:
    """No further node may start, because these are cordoned or not Ready and count against the limits."""

    unavailable: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The operation on a node has ended."""

    node: str
    outcome: Outcome


OperationProgress = (
    Started
    | EventRequested
    | EventJoined
    | EventChanged
    | Unclaimed
    | TransitionEnded
    | StageReached
    | AwaitingReady
    | HeldBack
    | Ended
)
ProgressReport = Callable[[OperationProgress], None]


def ignore(_progress: OperationProgress) -> None:
    """A report for callers that need the outcomes only."""
