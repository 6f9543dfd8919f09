from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Node, NodeCondition, NodeStatus
from kube_fairlead.api.lifecycle_v1alpha1 import (
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.lifecycle.stalls import EventContext, Stage, Stall, StallLimits, explain, find_stall
from kube_fairlead.lifecycle.steps import Nothing, WaitUntil

NOW = dt.datetime(2026, 7, 1, 12, 0, 0, tzinfo=dt.UTC)
RULES = StallLimits()
HERE = Node(metadata=ObjectMeta(name="n", uid="u1"))
ALIVE = Lease(spec=LeaseSpec(holder_identity="agent", lease_duration_seconds=40, renew_time=NOW))
TRANSITION = LifecycleTransition(
    metadata=ObjectMeta(name="t"), spec=LifecycleTransitionSpec(start="A", end="B", driver="d", all_nodes=True)
)


def ago(**units: float) -> dt.datetime:
    return NOW - dt.timedelta(**units)


def event(
    *, name: str = "e", created: dt.datetime = NOW, deleted: dt.datetime | None = None, **status: Any
) -> LifecycleEvent:
    finalizers: tuple[str, ...] = status.pop("finalizers", ())
    return LifecycleEvent(
        metadata=ObjectMeta(name=name, creation_timestamp=created, deletion_timestamp=deleted, finalizers=finalizers),
        spec=LifecycleEventSpec(transition_name="t", binding_node="n"),
        status=LifecycleEventStatus(**status),
    )


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (event(created=ago(minutes=9)), WaitUntil(NOW + dt.timedelta(minutes=1), "it is within its limits")),
        (event(created=ago(minutes=10)), Stall(Stage.PENDING, ago(minutes=10))),
        (
            # The first of two limits that it will reach.
            event(claim_status="Claimed", claim_time=ago(minutes=1), deleted=ago(minutes=7)),
            WaitUntil(NOW + dt.timedelta(minutes=3), "it is within its limits"),
        ),
        (event(claim_status="Pending", created=ago(days=1)), Stall(Stage.PENDING, ago(days=1))),
        (
            event(claim_status="Claimed", created=ago(days=1), claim_time=ago(minutes=59)),
            WaitUntil(NOW + dt.timedelta(minutes=1), "it is within its limits"),
        ),
        (
            event(claim_status="Claimed", claim_time=ago(minutes=61)),
            Stall(Stage.CLAIMED, ago(minutes=61)),
        ),
        (
            # An SLA counts instead, longer or shorter.
            event(claim_status="Claimed", claim_time=ago(hours=9), sla=NOW + dt.timedelta(hours=1)),
            WaitUntil(NOW + dt.timedelta(minutes=61), "it is within its limits"),
        ),
        (
            event(claim_status="Claimed", claim_time=ago(minutes=3), sla=ago(minutes=1)),
            Stall(Stage.CLAIMED, ago(minutes=3)),
        ),
        (
            event(claim_status="Claimed", claim_time=ago(hours=2), deleted=ago(minutes=10)),
            Stall(Stage.TERMINATING, ago(minutes=10)),
        ),
        (
            event(claim_status="Claimed", claim_time=ago(hours=2), deleted=ago(minutes=1)),
            Stall(Stage.CLAIMED, ago(hours=2)),
        ),
        (event(claim_status="Succeeded", created=ago(days=9)), Nothing("it is finished")),
        (event(claim_status="Failed", deleted=ago(hours=1)), Stall(Stage.TERMINATING, ago(hours=1))),
        (event(claim_status="FromTheFuture", created=ago(days=9)), Nothing("it is finished")),
    ],
)
def test_which_events_are_stalled(found: LifecycleEvent, decision: object) -> None:
    assert find_stall(found, RULES, NOW) == decision


def context(**changes: Any) -> EventContext:
    return EventContext(**{"node": HERE, "transition": TRANSITION, "lease": ALIVE, **changes})


EXPIRED = Lease(spec=LeaseSpec(holder_identity="agent", lease_duration_seconds=40, renew_time=ago(minutes=5)))
GOING_DOWN = wire.replace(
    HERE,
    status=NodeStatus(
        conditions=(
            NodeCondition(
                type=CONDITION_LIFECYCLE_TRANSITION,
                status="True",
                reason=NODE_SHUTDOWN.start,
                last_transition_time=ago(minutes=9),
            ),
        )
    ),
)
FOREIGN = LifecycleTransition(
    metadata=ObjectMeta(name="t"), spec=LifecycleTransitionSpec(start="A", end="B", driver="d", node_name="m")
)
CLAIM: dict[str, Any] = {"claim_status": "Claimed", "driver": "d", "transition": FrozenTransition(start="A", end="B")}


@pytest.mark.parametrize(
    ("found", "facts", "why"),
    [
        (event(), context(node=None), "there is no node n"),
        (event(), context(transition=None), "there is no LifecycleTransition t"),
        (event(), context(transition=FOREIGN), "LifecycleTransition t is not for node n"),
        (event(), context(others=(event(name="o", **CLAIM),)), "event o is carried out on the node first"),
        (event(), context(others=(event(name="o"),)), "the node's claimant has not processed it"),
        (event(), context(lease=None), "the node has no claimant: there is no Lease fairlead-node-lease/n"),
        (
            event(),
            context(lease=Lease(spec=LeaseSpec(holder_identity=""))),
            "the node has no claimant: Lease fairlead-node-lease/n has no holder",
        ),
        (
            event(),
            context(lease=Lease(spec=LeaseSpec(holder_identity="agent"))),
            "agent never renewed its Lease fairlead-node-lease/n",
        ),
        (
            event(),
            context(lease=EXPIRED),
            "agent does not renew its Lease fairlead-node-lease/n, last renewed at 2026-07-01T11:55:00Z",
        ),
        (event(message="waiting: no driver"), context(), "no driver"),
        (event(), context(node=GOING_DOWN, lease=EXPIRED), "the node is going down"),
        (event(first_seen_time=NOW), context(), "the node's claimant has seen it and not claimed it"),
        (event(**CLAIM), context(), "driver d has not reached the start state A"),
        (
            event(**CLAIM, driver_unreachable_time=ago(minutes=3)),
            context(),
            "driver d is unreachable since 2026-07-01T11:57:00Z and has not reached the start state A",
        ),
        (event(**CLAIM, start_time=NOW, message="2 pods left"), context(), "the end state B; 2 pods left"),
        (event(**CLAIM, sla=ago(minutes=2)), context(), "its deadline was 2026-07-01T11:58:00Z; driver d"),
        (event(**CLAIM, node_uid="u0"), context(), "its node n no longer exists"),
        (event(**CLAIM), context(lease=EXPIRED), "agent does not renew its Lease "),
        (event(deleted=NOW, finalizers=("a/b", "c/d")), context(), "held by finalizers a/b, c/d"),
        (
            event(deleted=NOW, finalizers=(FINALIZER_CLAIMED,), **CLAIM),
            context(),
            "its transition is carried out first: driver d has not reached the start state A",
        ),
        (
            event(deleted=NOW, finalizers=(FINALIZER_CLAIMED, "a/b"), claim_status="Failed"),
            context(lease=None),
            "held by finalizer a/b; its claimant has not removed its finalizer: the node has no claimant",
        ),
        (event(deleted=NOW), context(), "no finalizer holds it"),
    ],
)
def test_why(found: LifecycleEvent, facts: EventContext, why: str) -> None:
    if found.metadata.deletion_timestamp is not None:
        stage = Stage.TERMINATING
    else:
        stage = Stage.CLAIMED if found.status.claim_status == "Claimed" else Stage.PENDING
    said = explain(found, Stall(stage, NOW), facts, NOW)
    assert said.startswith(f"{stage} since 2026-07-01T12:00:00Z: ")
    assert why in said
