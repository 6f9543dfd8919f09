"""The state of a node and its events, as `fairlead status` shows it. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping

from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    TERMINAL,
    ClaimStatus,
    LifecycleEvent,
    LifecycleTransition,
    NodeLifecycleRecord,
    PodOutcome,
)
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION
from kube_fairlead.lifecycle import claims, records, stalls
from kube_fairlead.lifecycle.drain import cordons

__all__ = ["Claimant", "EventOverview", "NodeOverview", "RecordedEvent", "claimant_of", "overview", "recorded"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventOverview:
    """One LifecycleEvent."""

    name: str
    transition: str
    status: str
    start: str = ""
    end: str = ""
    driver: str = ""
    claimed_by: str = ""
    since: dt.datetime | None = None  # the time of this status
    deadline: dt.datetime | None = None
    left: dt.timedelta | None = None  # until the deadline; negative when it is past
    done: int | None = None
    total: int | None = None
    unit: str = ""
    message: str = ""  # of the driver or the claimant
    waits_for: str = ""  # what it waits for, as far as the API server's objects show
    deleting: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The holder of the node's Lease, which may claim for the node."""

    holder: str
    renewed: dt.datetime | None
    is_alive: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """One entry of a node's record: a finished event and its result."""

    event: str
    event_uid: str
    transition: str
    result: str
    driver: str = ""
    requested_by: str = ""
    requester_source: str = ""  # Admission, or FieldManager
    requested: dt.datetime | None = None
    claimed: dt.datetime | None = None
    completed: dt.datetime | None = None
    message: str = ""
    done: int | None = None
    total: int | None = None
    unit: str = ""
    pods: tuple[PodOutcome, ...] = ()
    pods_omitted: int = 0
    node_uid: str = ""
    is_of_earlier_node: bool = False  # the node was deleted since, or created again with another uid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeOverview:
    """One node. `exists` is False for a node that only events or a record name."""

    name: str
    exists: bool = True
    ready: str = ""
    state: str = ""  # the reason of the node's condition
    state_message: str = ""
    state_since: dt.datetime | None = None
    is_cordoned: bool = False
    cordoned_by: str = ""  # the event for which Fairlead cordoned the node
    claimant: Claimant | None = None
    current: EventOverview | None = None  # the Claimed event
    waiting: tuple[EventOverview, ...] = ()  # in the order of their claims
    finished: tuple[EventOverview, ...] = ()
    recorded: tuple[RecordedEvent, ...] = ()  # of events that were deleted, newest first


def overview(
    name: str,
    node: Node | None,
    events: Iterable[LifecycleEvent],
    *,
    transitions: Mapping[str, LifecycleTransition],
    lease: Lease | None,
    now: dt.datetime,
    record: NodeLifecycleRecord | None = None,
) -> NodeOverview:
    """Put together the overview of one node. `events` are those bound to it."""
    ordered = sorted(events, key=claims.order)
    seen = []
    for event in ordered:
        transition = transitions.get(event.spec.transition_name)
        others = tuple(other for other in ordered if other.uid != event.uid)
        context = stalls.EventContext(node=node, transition=transition, lease=lease, others=others)
        seen.append((event.status.claim_status or ClaimStatus.PENDING, _event(event, context, now)))
    present = {event.uid for event in ordered}
    kept = () if record is None else recorded(record, "" if node is None else node.uid)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION) if node is not None else None
    ready = node.condition("Ready") if node is not None else None
    cordoned = node is not None and node.spec.unschedulable
    return NodeOverview(
        name=name,
        exists=node is not None,
        ready=ready.status if ready is not None else "",
        state=condition.reason if condition is not None else "",
        state_message=condition.message if condition is not None else "",
        state_since=condition.last_transition_time if condition is not None else None,
        is_cordoned=cordoned,
        cordoned_by=cordons.owner(node) if node is not None else "",
        claimant=claimant_of(lease, now),
        current=next((one for status, one in seen if status == ClaimStatus.CLAIMED), None),
        waiting=tuple(one for status, one in seen if status == ClaimStatus.PENDING),
        finished=tuple(one for status, one in seen if status in TERMINAL),
        recorded=tuple(one for one in kept if one.event_uid not in present),
    )


def recorded(record: NodeLifecycleRecord, node_uid: str) -> tuple[RecordedEvent, ...]:
    """Return the entries of a record, newest first. `node_uid`: of the present node of this name; empty: none."""
    return tuple(
        RecordedEvent(
            event=one.event_name,
            event_uid=one.event_uid,
            transition=one.transition_name,
            result=one.result,
            driver=one.driver,
            requested_by=one.requested_by.name if one.requested_by is not None else "",
            requester_source=one.requested_by.source if one.requested_by is not None else "",
            requested=one.request_time,
            claimed=one.claim_time,
            completed=one.completion_time,
            message=one.message,
            done=one.progress.done if one.progress is not None else None,
            total=one.progress.total if one.progress is not None else None,
            unit=one.progress.unit if one.progress is not None else "",
            pods=one.pods,
            pods_omitted=one.pods_omitted,
            node_uid=one.node_uid,
            is_of_earlier_node=bool(one.node_uid) and one.node_uid != node_uid,
        )
        for one in records.newest_first(record.entries)
    )


def claimant_of(lease: Lease | None, now: dt.datetime) -> Claimant | None:
    """Return the holder of a node's Lease; None when it has none."""
    if lease is None or not lease.spec.holder_identity:
        return None
    renewed, lasts = lease.spec.renew_time, dt.timedelta(seconds=lease.spec.lease_duration_seconds or 0)
    return Claimant(
        holder=lease.spec.holder_identity, renewed=renewed, is_alive=renewed is not None and now <= renewed + lasts
    )


def _event(event: LifecycleEvent, context: stalls.EventContext, now: dt.datetime) -> EventOverview:
    status = event.status
    claim_status = status.claim_status or ClaimStatus.PENDING.value
    frozen, offered = status.transition, context.transition.spec if context.transition is not None else None
    progress = status.progress
    match claim_status:
        case ClaimStatus.PENDING:
            since = event.metadata.creation_timestamp
        case ClaimStatus.CLAIMED:
            since = status.claim_time
        case _:
            since = status.completion_time
    is_open = claim_status not in TERMINAL
    return EventOverview(
        name=event.name,
        transition=event.spec.transition_name,
        status=claim_status,
        start=frozen.start if frozen is not None else offered.start if offered is not None else "",
        end=frozen.end if frozen is not None else offered.end if offered is not None else "",
        driver=status.driver or (offered.driver if offered is not None else ""),
        claimed_by=status.claimed_by,
        since=since,
        deadline=status.sla,
        left=status.sla - now if status.sla is not None and is_open else None,
        done=progress.done if progress is not None else None,
        total=progress.total if progress is not None else None,
        unit=progress.unit if progress is not None else "",
        message=status.message,
        waits_for=_waits_for(event, context, now),
        deleting=event.deleting,
    )


def _waits_for(event: LifecycleEvent, context: stalls.EventContext, now: dt.datetime) -> str:
    match event.status.claim_status:
        case "" | ClaimStatus.PENDING:
            return stalls.reason(event, stalls.Stage.PENDING, context, now)
        case ClaimStatus.CLAIMED:
            return stalls.reason(event, stalls.Stage.CLAIMED, context, now)
        case _:
            # A finished event is retained on purpose, unless it is being deleted.
            return stalls.reason(event, stalls.Stage.TERMINATING, context, now) if event.deleting else ""
