"""What the garbage collector does with an event that its claimant does not finish or delete.

A claimant finishes and deletes its own events. What remains are events of nodes that no longer exist, and finished
events whose claimant does not return (invariant 4).
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
    """How long the collector waits.

    `keep`: before it deletes a finished event, so that users can read it. `claimant`: in addition, if the node exists,
    because its claimant deletes the event. `unknown_node`: for a node of a pending event to register.
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
    """Decide what the collector does with an event.

    Args:
        event: the event.
        node: the node that the event is bound to, if it exists.
        rules: how long to wait.
        now: the time.
        recorded: the event's entry is in its node's record.
        seen: when the collector first saw the event. It counts when the API server's clock was ahead at the creation.
    """
    is_gone = node is None or (bool(event.status.node_uid) and node.uid != event.status.node_uid)
    if event.finished:
        decision = _finished(event, rules, now, is_gone=is_gone)
        # A claimant that runs writes the record itself. The collector writes it before the event can be deleted.
        is_due = is_gone or isinstance(decision, RemoveFinalizer | Delete)
        return WriteRecord(records.entry_of(event)) if is_due and not recorded else decision
    if not is_gone:
        return Nothing("its node exists, and its claimant is responsible for it")
    if event.claim_status is ClaimStatus.PENDING:
        created = event.metadata.creation_timestamp or now
        since = created if created <= now else seen or now
        moment = deadlines.deadline_after(since, rules.unknown_node)
        if now < moment:
            return WaitUntil(moment, "its node may still register")
        return _failed(event, f"there is no node {event.spec.binding_node}", now)
    return _failed(event, f"node {event.spec.binding_node} with uid {event.status.node_uid} no longer exists", now)


def _finished(event: LifecycleEvent, rules: Retention, now: dt.datetime, *, is_gone: bool) -> Collection:
    if not retention.is_released(event):
        if is_gone:
            return RemoveFinalizer()
        return Nothing("its claimant has not removed its finalizer yet")
    if event.deleting:
        return Nothing("it is being deleted")
    moment = retention.collectable_at(event, rules.keep if is_gone else rules.keep + rules.claimant)
    if moment is not None and now < moment:
        return WaitUntil(moment, "it is retained")
    return Delete()


def _failed(event: LifecycleEvent, message: str, now: dt.datetime) -> Finish:
    completed = deadlines.whole_seconds(now)
    return Finish(phases.advance(event.status, ClaimStatus.FAILED, completion_time=completed, message=message))
