"""When an event is stalled, and why: what the stall controller reports.

Nothing here changes an event. Times of other machines only appear in messages.
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

__all__ = ["EventContext", "Stage", "Stall", "StallLimits", "explain", "find_stall", "missing_claimant", "reason"]


class Stage(enum.StrEnum):
    """The stage in which an event is stalled."""

    PENDING = "Pending"
    CLAIMED = "Claimed"
    TERMINATING = "Terminating"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StallLimits:
    """How long an event may stay in a stage.

    `claimed` applies to events without an SLA. An event with an SLA is stalled `slack` after its deadline.
    """

    pending: dt.timedelta = dt.timedelta(minutes=10)
    claimed: dt.timedelta = dt.timedelta(hours=1)
    terminating: dt.timedelta = dt.timedelta(minutes=10)
    slack: dt.timedelta = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Stall:
    """An event has been in a stage for too long."""

    stage: Stage
    since: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """The objects that explain why an event is stalled."""

    node: Node | None
    transition: LifecycleTransition | None
    lease: Lease | None  # of the node; its claimant holds it
    others: tuple[LifecycleEvent, ...] = ()  # bound to the same node


def find_stall(event: LifecycleEvent, limits: StallLimits, now: dt.datetime) -> Stall | WaitUntil | Nothing:
    """Return the stall of an event, or when to check again."""
    stages = list(_limits(event, limits, now))
    for found, limit in stages:
        if now >= limit:
            return found
    if not stages:
        return Nothing("it is finished")
    return WaitUntil(min(limit for _, limit in stages), "it is within its limits")


def explain(event: LifecycleEvent, stall: Stall, context: EventContext, now: dt.datetime) -> str:
    """Describe a stall in one sentence: since when, and why as far as the objects show."""
    why = reason(event, stall.stage, context, now)
    return f"{stall.stage} since {api_time.format_time(stall.since)}: {why}"


def reason(event: LifecycleEvent, stage: Stage, context: EventContext, now: dt.datetime) -> str:
    """Return why an event is still in a stage, as far as the objects show."""
    match stage:
        case Stage.PENDING:
            return _why_pending(event, context, now)
        case Stage.CLAIMED:
            return _why_claimed(event, context, now)
        case Stage.TERMINATING:
            return _why_terminating(event, context, now)


def _limits(event: LifecycleEvent, limits: StallLimits, now: dt.datetime) -> Iterator[tuple[Stall, dt.datetime]]:
    """Yield each stage of an event and the end of its limit; the more specific stage comes first."""
    created = event.metadata.creation_timestamp or now
    status = event.status
    if event.metadata.deletion_timestamp is not None:
        since = event.metadata.deletion_timestamp
        yield Stall(Stage.TERMINATING, since), deadlines.deadline_after(since, limits.terminating)
    match status.claim_status:
        case "" | ClaimStatus.PENDING:
            yield Stall(Stage.PENDING, created), deadlines.deadline_after(created, limits.pending)
        case ClaimStatus.CLAIMED:
            since = status.claim_time or created
            length, start = (limits.claimed, since) if status.sla is None else (limits.slack, status.sla)
            yield Stall(Stage.CLAIMED, since), deadlines.deadline_after(start, length)
        case _:
            pass


def _why_pending(event: LifecycleEvent, context: EventContext, now: dt.datetime) -> str:
    node, transition = context.node, context.transition
    if node is None:
        return f"there is no node {event.spec.binding_node}"
    if transition is None:
        return f"there is no LifecycleTransition {event.spec.transition_name}"
    if not transition.spec.covers(node.name, node.metadata.labels):
        return f"LifecycleTransition {transition.name} is not for node {node.name}"
    for other in sorted(context.others, key=claims.order):
        if other.status.claim_status == ClaimStatus.CLAIMED:
            return f"event {other.name} is carried out on the node first"
    until = conditions.going_down_until(node)
    if until is not None and now < until:
        return "the node is going down"
    return (
        missing_claimant(event, context.lease, now)
        or event.status.message.removeprefix(phases.WAITING)
        or (
            "the node's claimant has not processed it"
            if event.status.first_seen_time is None
            else "the node's claimant has seen it and not claimed it"
        )
    )


def _why_claimed(event: LifecycleEvent, context: EventContext, now: dt.datetime) -> str:
    status = event.status
    if context.node is None or (status.node_uid and context.node.uid != status.node_uid):
        return f"its node {event.spec.binding_node} no longer exists"
    parts = []
    if status.sla is not None and deadlines.expired(status, now):
        parts.append(f"its deadline was {api_time.format_time(status.sla)}")
    if missing := missing_claimant(event, context.lease, now):
        parts.append(missing)
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


def _why_terminating(event: LifecycleEvent, context: EventContext, now: dt.datetime) -> str:
    foreign = [name for name in event.metadata.finalizers if name != FINALIZER_CLAIMED]
    parts = [f"held by finalizer{'s' if len(foreign) > 1 else ''} {', '.join(foreign)}"] if foreign else []
    if FINALIZER_CLAIMED in event.metadata.finalizers:
        if event.status.claim_status in TERMINAL:
            missing = missing_claimant(event, context.lease, now)
            parts.append(f"its claimant has not removed its finalizer{f': {missing}' if missing else ''}")
        else:
            parts.append(f"its transition is carried out first: {_why_claimed(event, context, now)}")
    return "; ".join(parts) or "no finalizer holds it"


def missing_claimant(event: LifecycleEvent, lease: Lease | None, now: dt.datetime) -> str:
    """Return why the node has no claimant, by the Lease that a claimant must hold; empty while it has one."""
    name = f"{NAMESPACE_NODE_LEASE}/{event.spec.binding_node}"
    if lease is None:
        return f"the node has no claimant: there is no Lease {name}"
    spec = lease.spec
    if not spec.holder_identity:
        return f"the node has no claimant: Lease {name} has no holder"
    renewed = spec.renew_time
    if renewed is None or now > renewed + dt.timedelta(seconds=spec.lease_duration_seconds or 0):
        if renewed is None:
            return f"{spec.holder_identity} never renewed its Lease {name}"
        last = api_time.format_time(renewed)
        return f"{spec.holder_identity} does not renew its Lease {name}, last renewed at {last}"
    return ""
