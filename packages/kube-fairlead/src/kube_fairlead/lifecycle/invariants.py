"""The numbered invariants of the lifecycle, as checks that components call before they write.

1. At most one event of a node is Claimed.
2. A terminal state never changes, and a status field that is set once stays; a condition's reason moves from start to
   end, once.
3. A driver's Start is called only after claim and finalizer are stored; the finalizer is removed only after the
   terminal status is stored.
4. A claim with a deadline whose claimant runs is terminal by then, plus a bounded slack.
5. A claimant changes its own claims only.

The checks raise and do not repair: a broken invariant is a defect of Fairlead, and to continue would make it worse.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.api.validation.lifecycle import validate_event_status_update
from kube_fairlead.lifecycle import claims

__all__ = [
    "SLACK",
    "InvariantBroken",
    "check_finished_in_time",
    "check_may_release",
    "check_may_start",
    "check_move",
    "check_own",
    "check_reason",
    "check_single_claim",
    "check_status_change",
]

SLACK = dt.timedelta(seconds=10)
"""How long after its deadline an event may still be Claimed: time for a cancelled call and two writes."""


class InvariantBroken(Exception):
    """Raised before a step that would break an invariant, or after one that did. `number` is the invariant."""

    def __init__(self, number: int, what: str) -> None:
        self.number = number
        super().__init__(f"invariant {number}: {what}")


def check_single_claim(events: Iterable[LifecycleEvent]) -> None:
    """Invariant 1, of the events of any number of nodes."""
    holders: dict[str, str] = {}
    for event in events:
        if event.claim_status is not ClaimStatus.CLAIMED:
            continue
        node = event.spec.binding_node
        if node in holders:
            raise InvariantBroken(1, f"node {node} has two Claimed events, {holders[node]} and {event.name}")
        holders[node] = event.name


def check_status_change(before: LifecycleEvent, after: LifecycleEvent) -> None:
    """Invariant 2, before a status is written."""
    errors = validate_event_status_update(after, before)
    if errors:
        raise InvariantBroken(2, f"event {before.name}: {'; '.join(map(str, errors))}")


def check_reason(event: LifecycleEvent, reason: str, current: str) -> None:
    """Invariant 2, before the reason of the Node condition is moved on behalf of a claimed event.

    `current` is the reason that the node shows, empty without the condition.
    """
    transition = event.status.transition
    if transition is None:
        raise InvariantBroken(2, f"event {event.name} has no frozen transition and moves no condition")
    # The event records the start after the node has shown it. From then on the node does not return to it.
    is_started = event.status.start_time is not None
    check_move(f"event {event.name}", (transition.start, transition.end), reason, current, is_started=is_started)


def check_move(what: str, states: tuple[str, str], reason: str, current: str, *, is_started: bool) -> None:
    """Invariant 2, for a move of a node from the first of two states to the second.

    `is_started`: the first was published. It is published again only if the node shows neither state.
    """
    start, end = states
    allowed = end if is_started and current in states else start
    if reason != allowed:
        raise InvariantBroken(2, f"{what} may move the condition to {allowed} now, not to {reason}")


def check_may_start(event: LifecycleEvent, claimant: str) -> None:
    """Invariant 3, before a driver is called. The event must be the one that the API server returned."""
    check_own(event, claimant)
    if event.claim_status is not ClaimStatus.CLAIMED:
        raise InvariantBroken(3, f"event {event.name} is {event.claim_status}, and its driver may not be called")
    held = FINALIZER_CLAIMED in event.metadata.finalizers
    if not held and event.status.start_time is None:
        raise InvariantBroken(3, f"event {event.name} has no finalizer, and its driver may not be called")


def check_may_release(event: LifecycleEvent) -> None:
    """Invariant 3, before the finalizer is removed. An event deleted before its claim has no terminal status."""
    is_unclaimed = event.claim_status is ClaimStatus.PENDING and event.deleting
    if not event.finished and not is_unclaimed:
        raise InvariantBroken(3, f"event {event.name} is {event.claim_status} and keeps its finalizer")


def check_finished_in_time(event: LifecycleEvent, now: dt.datetime, slack: dt.timedelta = SLACK) -> None:
    """Invariant 4, of an event whose claimant runs."""
    deadline = event.status.sla
    if event.claim_status is ClaimStatus.CLAIMED and deadline is not None and now > deadline + slack:
        raise InvariantBroken(4, f"event {event.name} is still Claimed {now - deadline} after its deadline")


def check_own(event: LifecycleEvent, claimant: str) -> None:
    """Invariant 5, before a claim is changed."""
    if claims.belongs_to_another(event, claimant):
        whose = event.status.claimed_by or "another claimant"
        raise InvariantBroken(5, f"event {event.name} is {whose}'s, not {claimant}'s")
