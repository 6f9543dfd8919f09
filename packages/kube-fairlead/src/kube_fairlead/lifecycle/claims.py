"""Whose turn it is: which event of a node may be claimed, and which claimant resumes which claim (invariant 5).

1. At most one event of a node is Claimed (invariant 1), and the next is claimed only when the last one of this
   claimant is wound up, so that its conditions are never written over those of a later one.
2. First come, first served: by creationTimestamp, and within one second in the order in which the API server stored
   them. That order is the resourceVersion of an event that was never changed. The claimant records it as
   `status.sequence` when it first writes that the event waits, because later writes change the resourceVersion.
3. An event that waits for its driver or its transition does not hold up those behind it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.lifecycle import conditions, driver_options, retention

__all__ = [
    "Drivers",
    "blocker",
    "central_claimant",
    "concerned_from",
    "is_anothers",
    "is_in_the_way",
    "node_claimant",
    "order",
    "sequence",
    "unready",
]

Drivers = Mapping[str, frozenset[tuple[str, str]]]
"""The drivers that are registered, and which (start, end) pairs each covers."""

_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


def node_claimant(node_name: str) -> str:
    """Who claims when a node's own agent does."""
    return f"node/{node_name}"


def central_claimant(name: str) -> str:
    """Who claims when a central claimer does, for nodes that have no agent."""
    return f"claimer/{name}"


def order(event: LifecycleEvent) -> tuple[dt.datetime, int, str]:
    """First come, first served."""
    return event.metadata.creation_timestamp or _EARLIEST, sequence(event), event.name


def sequence(event: LifecycleEvent) -> int:
    """The place of an event among those of one second: recorded, or not changed since it was created."""
    version = event.metadata.resource_version
    return event.status.sequence or (int(version) if version.isdecimal() else 0)


def unready(
    event: LifecycleEvent, transition: LifecycleTransition | None, node: Node, drivers: Drivers
) -> tuple[str, bool]:
    """Why a pending event cannot be claimed now, and whether waiting is pointless; an empty reason means it can."""
    name = event.spec.transition_name
    if transition is None:
        return f"there is no LifecycleTransition {name}", False
    spec = transition.spec
    if not spec.covers(node.name, node.metadata.labels):
        return f"LifecycleTransition {name} is not for node {node.name}", True
    if spec.driver not in drivers:
        return f"driver {spec.driver} is not registered on node {node.name}", False
    if (spec.start, spec.end) not in drivers[spec.driver]:
        return f"driver {spec.driver} does not offer the transition from {spec.start} to {spec.end}", False
    try:
        spec.sla_duration  # noqa: B018 - admission refuses a malformed one, but not every server ran our admission
    except ValueError as error:
        return f"the sla of LifecycleTransition {name} is malformed: {error}", True
    problem = driver_options.options_problem(driver_options.options_for(spec.driver, event.metadata.annotations))
    return problem, bool(problem)


def is_anothers(event: LifecycleEvent, claimant: str) -> bool:
    """Whether somebody else answers for an event.

    `claimedBy` is ours: the proposal does not know it, and who claims by the proposal alone writes no more than
    `driver`. An event that failed before anybody claimed it has neither, and is everybody's.
    """
    status = event.status
    if status.claimed_by:
        return status.claimed_by != claimant
    return event.claim_status is ClaimStatus.CLAIMED or (event.finished and bool(status.driver))


def is_in_the_way(events: Iterable[LifecycleEvent], claimant: str) -> bool:
    """Whether a claimant that holds the node's Lease keeps another from going on with its claim, and has none itself.

    Whoever claims by the proposal alone holds no Lease, and is waited for.
    """
    events = tuple(events)
    if any(event.status.claimed_by == claimant and not retention.is_wound_up(event) for event in events):
        return False
    return any(
        event.claim_status is ClaimStatus.CLAIMED and event.status.claimed_by not in {"", claimant} for event in events
    )


def concerned_from(
    node: Node,
    events: Iterable[LifecycleEvent],
    transitions: Mapping[str, LifecycleTransition],
    drivers: Drivers,
    *,
    claimant: str,
    keep: dt.timedelta,
) -> dt.datetime | None:
    """Since when a claimant that looks after many nodes has something to do for one; None: not as things are.

    It holds the node's Lease for no longer than that. While another's claim is under way on the node, its claimant
    needs the Lease to go on with it: who took the Lease to claim the next one would wait for that for ever. A finished
    event that is kept for a while needs no Lease before it is to be deleted.
    """
    events = tuple(events)
    own = [event for event in events if event.status.claimed_by == claimant]
    if any(not retention.is_wound_up(event) for event in own):
        return _EARLIEST
    is_taken = any(event.claim_status is ClaimStatus.CLAIMED for event in events)
    for event in events:
        if is_taken or event.claim_status is not ClaimStatus.PENDING or event.deleting:
            continue
        reason, _ = unready(event, transitions.get(event.spec.transition_name), node, drivers)
        if not reason:
            # The agent of a node that goes down needs the Lease to say so in an event.
            return conditions.going_down_until(node) or _EARLIEST
    collectable = (retention.collectable_at(event, keep) for event in own if not event.deleting)
    return min((moment for moment in collectable if moment is not None), default=None)


def blocker(
    event: LifecycleEvent,
    events: Iterable[LifecycleEvent],
    *,
    claimant: str,
    is_ready: Mapping[str, bool],
) -> LifecycleEvent | None:
    """Which event of the same node goes first, if one does. `is_ready` tells of each pending event, by name."""
    others = sorted((other for other in events if other.uid != event.uid), key=order)
    for other in others:
        if other.claim_status is ClaimStatus.CLAIMED:
            return other
        if other.finished and other.status.claimed_by == claimant and not retention.is_wound_up(other):
            return other
    for other in others:
        pending = other.claim_status is ClaimStatus.PENDING and not other.deleting
        if pending and order(other) < order(event) and is_ready.get(other.name, False):
            return other
    return None
