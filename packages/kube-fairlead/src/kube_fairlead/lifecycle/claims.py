"""Which event of a node may be claimed next, and which claimant resumes which claim (invariant 5).

1. At most one event of a node is Claimed (invariant 1). A claimant claims the next one only after it has removed its
   finalizer from the last one, so that the conditions of an earlier event never overwrite those of a later one.
2. Events are claimed in the order of creationTimestamp, and within one second in the order in which the API server
   stored them. That order is the resourceVersion of an event that was never changed. The claimant records it as
   `status.sequence` when it first writes that the event waits, because later writes change the resourceVersion.
3. An event that waits for its driver or its transition does not block later events.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.lifecycle import conditions, driver_options, retention

__all__ = [
    "Drivers",
    "belongs_to_another",
    "blocks_other_claimant",
    "central_claimant",
    "lease_needed_from",
    "node_claimant",
    "order",
    "preceding_event",
    "sequence",
    "unready",
]

Drivers = Mapping[str, frozenset[tuple[str, str]]]
"""The registered drivers, each with the (start, end) pairs that it covers."""

_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


def node_claimant(node_name: str) -> str:
    """Return the claimant name of a node's own agent."""
    return f"node/{node_name}"


def central_claimant(name: str) -> str:
    """Return the claimant name of a central claimer, which claims for nodes without an agent."""
    return f"claimer/{name}"


def order(event: LifecycleEvent) -> tuple[dt.datetime, int, str]:
    """Return the sort key of an event in its node's queue."""
    return event.metadata.creation_timestamp or _EARLIEST, sequence(event), event.name


def sequence(event: LifecycleEvent) -> int:
    """Return an event's place among events of the same second: the recorded one, or its resourceVersion."""
    version = event.metadata.resource_version
    return event.status.sequence or (int(version) if version.isdecimal() else 0)


def unready(
    event: LifecycleEvent, transition: LifecycleTransition | None, node: Node, drivers: Drivers
) -> tuple[str, bool]:
    """Return why a pending event cannot be claimed now (empty: it can), and whether waiting is pointless."""
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
        spec.sla_duration  # noqa: B018 - admission rejects a malformed one, but not every server runs that admission
    except ValueError as error:
        return f"the sla of LifecycleTransition {name} is malformed: {error}", True
    problem = driver_options.options_problem(driver_options.options_for(spec.driver, event.metadata.annotations))
    return problem, bool(problem)


def belongs_to_another(event: LifecycleEvent, claimant: str) -> bool:
    """Whether another claimant is responsible for an event.

    `claimedBy` is Fairlead's extension: a claimant that follows the proposal alone writes only `driver`. An event that
    failed before it was claimed has neither, and any claimant may finish it.
    """
    status = event.status
    if status.claimed_by:
        return status.claimed_by != claimant
    return event.claim_status is ClaimStatus.CLAIMED or (event.finished and bool(status.driver))


def blocks_other_claimant(events: Iterable[LifecycleEvent], claimant: str) -> bool:
    """Whether a claimant without a claim holds the Lease that another claimant needs to finish its own.

    A claimant that follows the proposal alone needs no Lease, so it is not blocked.
    """
    events = tuple(events)
    if any(event.status.claimed_by == claimant and not retention.is_released(event) for event in events):
        return False
    return any(
        event.claim_status is ClaimStatus.CLAIMED and event.status.claimed_by not in {"", claimant} for event in events
    )


def lease_needed_from(
    node: Node,
    events: Iterable[LifecycleEvent],
    transitions: Mapping[str, LifecycleTransition],
    drivers: Drivers,
    *,
    claimant: str,
    keep: dt.timedelta,
) -> dt.datetime | None:
    """Return from when a claimant of many nodes needs the Lease of this one; None: it does not need it.

    While another claimant has a claim on the node, that claimant needs the Lease to finish it: a claimer that took the
    Lease to claim the next event would wait forever. A finished event that is retained needs no Lease until it is due
    for deletion.
    """
    events = tuple(events)
    own = [event for event in events if event.status.claimed_by == claimant]
    if any(not retention.is_released(event) for event in own):
        return _EARLIEST
    is_taken = any(event.claim_status is ClaimStatus.CLAIMED for event in events)
    for event in events:
        if is_taken or event.claim_status is not ClaimStatus.PENDING or event.deleting:
            continue
        reason, _ = unready(event, transitions.get(event.spec.transition_name), node, drivers)
        if not reason:
            # The agent of a node that shuts down needs the Lease to claim the event of the shutdown.
            return conditions.going_down_until(node) or _EARLIEST
    collectable = (retention.collectable_at(event, keep) for event in own if not event.deleting)
    return min((moment for moment in collectable if moment is not None), default=None)


def preceding_event(
    event: LifecycleEvent,
    events: Iterable[LifecycleEvent],
    *,
    claimant: str,
    is_ready: Mapping[str, bool],
) -> LifecycleEvent | None:
    """Return the event of the node that must be claimed or released first. `is_ready`: pending events by name."""
    others = sorted((other for other in events if other.uid != event.uid), key=order)
    for other in others:
        if other.claim_status is ClaimStatus.CLAIMED:
            return other
        if other.finished and other.status.claimed_by == claimant and not retention.is_released(other):
            return other
    for other in others:
        pending = other.claim_status is ClaimStatus.PENDING and not other.deleting
        if pending and order(other) < order(event) and is_ready.get(other.name, False):
            return other
    return None
