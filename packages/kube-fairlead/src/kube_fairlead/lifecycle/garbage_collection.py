"""What becomes of events that nobody on a node looks after any more: decided here, done by the collector elsewhere.

A claimant settles its own events and deletes them. What is left are events of nodes that are gone, and finished ones
that their claimant never came back to (invariant 4).
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.lifecycle import deadlines, phases, records, retention
from kube_fairlead.lifecycle.steps import Delete, Finish, Nothing, RemoveFinalizer, WaitUntil, WriteRecord

__all__ = ["Collection", "Retention", "collect"]

Collection = Finish | WriteRecord | RemoveFinalizer | Delete | WaitUntil | Nothing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are left alone.

    `keep`: a finished event, so that people can read it. `claimant`: on top of that, one whose node is there, because
    its claimant deletes it. `unknown_node`: a pending event for a node that has not registered yet.
    """

    keep: dt.timedelta = dt.timedelta(0)
    claimant: dt.timedelta = dt.timedelta(minutes=10)
    unknown_node: dt.timedelta = dt.timedelta(minutes=5)


def collect(
    event: LifecycleEvent,
    node: Node | None,
    rules: Retention,
    now: dt.datetime,
    *,
    recorded: bool = False,
    seen: dt.datetime | None = None,
) -> Collection:
    """What the collector does with an event.

    `node` is the one of the event's name, if there is one. `recorded`: the event's entry is in its node's record. What
    the collector finishes has no claimant that would write it. `seen`: when the collector first saw it, which counts
    where the API server's clock was ahead when it created the event.
    """
    is_gone = node is None or (bool(event.status.node_uid) and node.uid != event.status.node_uid)
    if event.finished:
        decision = _finished(event, rules, now, is_gone=is_gone)
        # A claimant that is there writes the record. A user may delete an event that has none at any moment.
        is_due = is_gone or isinstance(decision, RemoveFinalizer | Delete)
        return WriteRecord(records.entry_of(event)) if is_due and not recorded else decision
    if not is_gone:
        return Nothing("its node is there, and its claimant answers for it")
    if event.claim_status is ClaimStatus.PENDING:
        created = event.metadata.creation_timestamp or now
        since = created if created <= now else seen or now
        moment = deadlines.deadline_after(since, rules.unknown_node)
        if now < moment:
            return WaitUntil(moment, "its node may still register")
        return _failed(event, f"there is no node {event.spec.binding_node}", now)
    return _failed(event, f"node {event.spec.binding_node} with uid {event.status.node_uid} no longer exists", now)


def _finished(event: LifecycleEvent, rules: Retention, now: dt.datetime, *, is_gone: bool) -> Collection:
    if not retention.is_wound_up(event):
        if is_gone:
            return RemoveFinalizer()
        return Nothing("its claimant has not wound it up yet")
    if event.deleting:
        return Nothing("it is being deleted")
    moment = retention.collectable_at(event, rules.keep if is_gone else rules.keep + rules.claimant)
    if moment is not None and now < moment:
        return WaitUntil(moment, "a finished event is kept for a while")
    return Delete()


def _failed(event: LifecycleEvent, message: str, now: dt.datetime) -> Finish:
    completed = deadlines.whole_seconds(now)
    return Finish(phases.advance(event.status, ClaimStatus.FAILED, completion_time=completed, message=message))
