"""The steps that `decide` returns: what a claimant does next for one event, as plain data.

The engine carries them out. `lifecycle.decisions` decides which one is due.
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
    """Write why the event waits. The wait for a driver counts from the first such write."""

    status: LifecycleEventStatus
    for_its_turn: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AskDriver:
    """Probe the driver: its socket may outlive its process, and an event claimed for a dead driver stalls."""

    offer: Offer


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Write the claim in one status update, guarded by the resourceVersion."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add the finalizer, so that the event is not removed before its terminal status is stored."""


@dataclasses.dataclass(frozen=True, slots=True)
class AnnotateNode:
    """Set or remove the annotations for autoscalers (None removes one)."""

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
    """Write the start time: the driver has started, and the Node shows the start state."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class NoteDriver:
    """Write that the driver of a claimed event is unreachable, or reachable again."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class EndDriver:
    """Call the driver's End and store its progress."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """Write the terminal status, after cancelling a call that still runs."""

    status: LifecycleEventStatus


@dataclasses.dataclass(frozen=True, slots=True)
class WriteRecord:
    """Add the event's result to its node's record, before the finalizer is removed."""

    entry: RecordEntry


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer: the event may be deleted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Delete the event."""


@dataclasses.dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing before this moment, unless something changes."""

    moment: dt.datetime
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Nothing:
    """Do nothing, unless something changes."""

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
