"""When an event has taken too long, and why: what the stall controller tells people.

Nothing is decided here about the event itself. Times of other machines are used for words only.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterator

from kube_fairlead.api import time as api_time
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL, ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NAMESPACE_NODE_LEASE
from kube_fairlead.lifecycle import claims, conditions, deadlines, phases
from kube_fairlead.lifecycle.steps import Nothing, WaitUntil

__all__ = ["Overdue", "Patience", "Stage", "Surroundings", "explain", "overdue", "reason", "silence"]


class Stage(enum.StrEnum):
    """Where an event is stuck."""

    PENDING = "Pending"
    CLAIMED = "Claimed"
    TERMINATING = "Terminating"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is not too long.

    `claimed` counts for events without an SLA; with one its deadline does, and `slack` after it.
    """

    pending: dt.timedelta = dt.timedelta(minutes=10)
    claimed: dt.timedelta = dt.timedelta(hours=1)
    terminating: dt.timedelta = dt.timedelta(minutes=10)
    slack: dt.timedelta = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Overdue:
    """An event that has been in a stage since then, which is too long."""

    stage: Stage
    since: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What explains why an event does not get on."""

    node: Node | None
    transition: LifecycleTransition | None
    lease: Lease | None  # the node's, of whoever claims for it
    others: tuple[LifecycleEvent, ...] = ()  # bound to the same node


def overdue(event: LifecycleEvent, patience: Patience, now: dt.datetime) -> Overdue | WaitUntil | Nothing:
    """Whether an event has taken too long, or when it will have."""
    limits = list(_limits(event, patience, now))
    for found, limit in limits:
        if now >= limit:
            return found
    if not limits:
        return Nothing("it is finished")
    return WaitUntil(min(limit for _, limit in limits), "it has time left")


def explain(event: LifecycleEvent, stuck: Overdue, around: Surroundings, now: dt.datetime) -> str:
    """One sentence for people: since when, and why as far as can be seen from outside."""
    why = reason(event, stuck.stage, around, now)
    return f"{stuck.stage} since {api_time.format_time(stuck.since)}: {why}"


def reason(event: LifecycleEvent, stage: Stage, around: Surroundings, now: dt.datetime) -> str:
    """Why an event is still in a stage, as far as can be seen from outside."""
    match stage:
        case Stage.PENDING:
            return _why_pending(event, around, now)
        case Stage.CLAIMED:
            return _why_claimed(event, around, now)
        case Stage.TERMINATING:
            return _why_terminating(event, around, now)


def _limits(event: LifecycleEvent, patience: Patience, now: dt.datetime) -> Iterator[tuple[Overdue, dt.datetime]]:
    """Every stage an event is in, and when that has lasted too long; the one that tells more comes first."""
    created = event.metadata.creation_timestamp or now
    status = event.status
    if event.metadata.deletion_timestamp is not None:
        since = event.metadata.deletion_timestamp
        yield Overdue(Stage.TERMINATING, since), deadlines.deadline_after(since, patience.terminating)
    match status.claim_status:
        case "" | ClaimStatus.PENDING:
            yield Overdue(Stage.PENDING, created), deadlines.deadline_after(created, patience.pending)
        case ClaimStatus.CLAIMED:
            since = status.claim_time or created
            length, start = (patience.claimed, since) if status.sla is None else (patience.slack, status.sla)
            yield Overdue(Stage.CLAIMED, since), deadlines.deadline_after(start, length)
        case _:
            pass


def _why_pending(event: LifecycleEvent, around: Surroundings, now: dt.datetime) -> str:
    node, transition = around.node, around.transition
    if node is None:
        return f"there is no node {event.spec.binding_node}"
    if transition is None:
        return f"there is no LifecycleTransition {event.spec.transition_name}"
    if not transition.spec.covers(node.name, node.metadata.labels):
        return f"LifecycleTransition {transition.name} is not for node {node.name}"
    for other in sorted(around.others, key=claims.order):
        if other.status.claim_status == ClaimStatus.CLAIMED:
            return f"event {other.name} is carried out on the node first"
    until = conditions.going_down_until(node)
    if until is not None and now < until:
        return "the node is going down"
    return (
        silence(event, around.lease, now)
        or event.status.message.removeprefix(phases.WAITING)
        or (
            "whoever claims for the node has not looked at it"
            if event.status.first_seen_time is None
            else "whoever claims for the node has seen it and not claimed it"
        )
    )


def _why_claimed(event: LifecycleEvent, around: Surroundings, now: dt.datetime) -> str:
    status = event.status
    if around.node is None or (status.node_uid and around.node.uid != status.node_uid):
        return f"its node {event.spec.binding_node} no longer exists"
    parts = []
    if status.sla is not None and deadlines.expired(status, now):
        parts.append(f"its deadline was {api_time.format_time(status.sla)}")
    silent = silence(event, around.lease, now)
    if silent:
        parts.append(silent)
    state = "start" if status.start_time is None else "end"
    reached = "" if status.transition is None else f" {getattr(status.transition, state)}"
    since = status.driver_unreachable_time
    lost = "" if since is None else f" is unreachable since {api_time.format_time(since)} and"
    parts.append(f"driver {status.driver or 'unknown'}{lost} has not reached the {state} state{reached}")
    if status.progress is not None:
        progress = status.progress
        parts.append(f"it is at {progress.done} of {progress.total} {progress.unit}".rstrip())
    if status.message:
        parts.append(status.message)
    return "; ".join(parts)


def _why_terminating(event: LifecycleEvent, around: Surroundings, now: dt.datetime) -> str:
    foreign = [name for name in event.metadata.finalizers if name != FINALIZER_CLAIMED]
    parts = [f"held by finalizer{'s' if len(foreign) > 1 else ''} {', '.join(foreign)}"] if foreign else []
    if FINALIZER_CLAIMED in event.metadata.finalizers:
        if event.status.claim_status in TERMINAL:
            silent = silence(event, around.lease, now)
            parts.append(f"its claimant has not let go of it{f': {silent}' if silent else ''}")
        else:
            parts.append(f"it is carried out first: {_why_claimed(event, around, now)}")
    return "; ".join(parts) or "nothing holds it"


def silence(event: LifecycleEvent, lease: Lease | None, now: dt.datetime) -> str:
    """That no claimant answers for the node, by the Lease that a claimant must hold; empty while one does."""
    name = f"{NAMESPACE_NODE_LEASE}/{event.spec.binding_node}"
    if lease is None:
        return f"nobody claims for the node: there is no Lease {name}"
    spec = lease.spec
    if not spec.holder_identity:
        return f"nobody claims for the node: nobody holds the Lease {name}"
    renewed = spec.renew_time
    if renewed is None or now > renewed + dt.timedelta(seconds=spec.lease_duration_seconds or 0):
        last = "never" if renewed is None else f"last at {api_time.format_time(renewed)}"
        return f"{spec.holder_identity} is silent: it renewed the Lease {name} {last}"
    return ""
