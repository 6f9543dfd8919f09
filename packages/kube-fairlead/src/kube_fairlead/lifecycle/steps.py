"""The steps that `decide` may answer with: what a claimant does next about one event, as plain data.

The engine carries them out. Nothing here says when a step is right: that is `lifecycle.decisions`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEventStatus, RecordEntry
from kube_fairlead.lifecycle import conditions
from kube_fairlead.lifecycle.facts import Offer

__all__ = [
    "AddFinalizer",
    "AnnotateNode",
    "AskDriver",
    "Claim",
    "Decision",
    "Delete",
    "EndDriver",
    "Finish",
    "MarkSeen",
    "NoteDriver",
    "Nothing",
    "Publish",
    "RecordStart",
    "RemoveFinalizer",
    "StartDriver",
    "WaitUntil",
    "WriteRecord",
]


@dataclasses.dataclass(frozen=True, slots=True)
class MarkSeen:
    """Write why the event waits, whenever that changes; the wait for a driver counts from when it was first seen."""

    status: LifecycleEventStatus
    for_its_turn: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AskDriver:
    """Ask the driver whether it answers: a socket file is not a driver, and what is claimed for a dead one is stuck."""

    offer: Offer


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Write the claim: everything about it in one status update, guarded by the resource version."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class AddFinalizer:
    """From now on the event cannot vanish before its state is settled."""


@dataclasses.dataclass(frozen=True, slots=True)
class AnnotateNode:
    """Tell autoscalers, or tell them that it is over (None removes an annotation)."""

    changes: Mapping[str, str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class StartDriver:
    """Call the driver's Start."""


@dataclasses.dataclass(frozen=True, slots=True)
class Publish:
    """Write these conditions of the Node."""

    wanted: tuple[conditions.Wanted, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordStart:
    """Write that the driver has started and the node says so."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class NoteDriver:
    """Write that the driver of a claimed event is out of reach, or that it is back."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class EndDriver:
    """Call the driver's End and follow its progress."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """Write the terminal status; a call that is still under way is cancelled first."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class WriteRecord:
    """Keep what the event came to in its node's record, before anything lets the event go."""

    entry: RecordEntry


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """The state is settled: the event may be deleted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """The event has served its purpose."""


@dataclasses.dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing before this moment, unless something changes."""

    moment: dt.datetime
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing, unless something changes."""

    why: str


Decision = (
    MarkSeen
    | AskDriver
    | Claim
    | AddFinalizer
    | AnnotateNode
    | StartDriver
    | Publish
    | RecordStart
    | NoteDriver
    | EndDriver
    | Finish
    | WriteRecord
    | RemoveFinalizer
    | Delete
    | WaitUntil
    | Nothing
)
