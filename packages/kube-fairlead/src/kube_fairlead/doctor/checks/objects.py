"""Lifecycle objects that no component handles."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.reserved import ANNOTATION_PUBLISHED_BY, FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.doctor.facts import Facts, Finding, Severity
from kube_fairlead.lifecycle import garbage_collection, offers
from kube_fairlead.lifecycle.steps import Delete, Finish, RemoveFinalizer, WriteRecord

__all__ = ["finalizers", "transitions"]

# Two renewals that did not come.
_UNOFFERED: Final = 2 * offers.RENEWAL
# Longer than any component takes that runs.
_LONG: Final = dt.timedelta(minutes=10)
_COLLECTED: Final = (Delete, Finish, RemoveFinalizer, WriteRecord)


def transitions(facts: Facts) -> Iterator[Finding]:
    """Some driver offers each transition, as far as that can be seen."""
    if not facts.groups:
        return
    found = facts.transitions.value
    offered = set()
    for transition in found:
        stale_at = offers.collectable_at(transition, _UNOFFERED)
        if stale_at is not None and facts.now < stale_at:
            offered.add(transition.spec.driver)
    for transition in found:
        if transition.name == NODE_SHUTDOWN.name or transition.spec.driver in offered:
            continue
        stale_at = offers.collectable_at(transition, _UNOFFERED)
        named = f"LifecycleTransition/{transition.name}"
        if stale_at is not None:
            last = api_time.format_time(stale_at - _UNOFFERED)
            yield Finding(
                object=named,
                severity=Severity.WARNING,
                problem=f"no driver {transition.spec.driver} offers it, the last one did at {last}: its events fail",
                fix="start the driver on the nodes, or delete the transition if it is not used any more",
            )
        elif ANNOTATION_PUBLISHED_BY not in transition.metadata.annotations:
            yield Finding(
                object=named,
                severity=Severity.INFO,
                problem=f"made by a user, and no agent has published anything for its driver {transition.spec.driver}",
                fix="see that the name of the driver is right, and that it is registered with the agents",
            )


def finalizers(facts: Facts) -> Iterator[Finding]:
    """No event is kept by our finalizer, or by a node that was replaced, for longer than a component takes."""
    if not facts.groups:
        return
    nodes = facts.nodes.value
    for event in facts.events.value:
        found = _stuck(event, nodes.get(event.spec.binding_node), facts.now)
        if found is not None:
            yield found


def _stuck(event: LifecycleEvent, node: Node | None, now: dt.datetime) -> Finding | None:
    try:
        decision = garbage_collection.collect(event, node, garbage_collection.Retention(), now, recorded=True)
    except ValueError:
        return None  # a status of a newer version
    since = event.status.completion_time or event.metadata.creation_timestamp or now
    held = FINALIZER_CLAIMED in event.metadata.finalizers
    collector = "fairlead controller-manager runs and leads, with the controller event-gc"
    if node is None:
        if not isinstance(decision, _COLLECTED):
            return None
        # Since when is not known: the node may have been deleted a moment ago.
        return Finding(
            object=f"LifecycleEvent/{event.name}",
            severity=Severity.INFO,
            problem="its node is gone, and event-gc has not collected it yet",
            fix=f"if it is still there in {_LONG // dt.timedelta(minutes=1)} minutes, see that {collector}",
        )
    if event.status.node_uid and event.status.node_uid != node.uid:
        is_stuck, who = isinstance(decision, _COLLECTED), "its node was replaced, and event-gc has not collected it"
        since = max(since, node.metadata.creation_timestamp or now)
        fix = f"see that {collector}"
    elif event.finished and held:
        is_stuck, who = True, "finished, and the claimant has not removed its finalizer"
        fix = f"start the agent of node {event.spec.binding_node}, which winds the event up"
    elif event.deleting and held:
        is_stuck, who = True, "deleted, and its finalizer is still there"
        since = event.metadata.deletion_timestamp or since
        fix = f"fairlead status {event.spec.binding_node} says what the event waits for"
    else:
        return None
    if not is_stuck or now - since < _LONG:
        return None
    return Finding(
        object=f"LifecycleEvent/{event.name}",
        severity=Severity.WARNING,
        problem=f"{who} since {api_time.format_time(since)}",
        fix=fix,
    )
