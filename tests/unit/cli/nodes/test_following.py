"""How an event ended, also when nobody saw it end; and what is said while it lasts."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from fairlead.api import wire
from fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
    Progress,
)
from fairlead.api.meta import ObjectMeta
from fairlead.base.clock import VirtualClock
from fairlead.base.randomness import SeededRandomness
from fairlead.cli.nodes import following
from fairlead.client.client import Client
from fairlead.client.transport import Request, Response

TRANSITION = LifecycleTransition(spec=LifecycleTransitionSpec(start="DrainStarted", end="DrainComplete"))
NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


def event(status: str = "", **more: object) -> LifecycleEvent:
    return LifecycleEvent(
        metadata=ObjectMeta(name="e", uid="u"),
        spec=LifecycleEventSpec(transition_name="node-drain", binding_node="n"),
        status=wire.replace(LifecycleEventStatus(claim_status=status), **more),
    )


class Server:
    """Knows one node."""

    def __init__(self, **condition: str) -> None:
        self.condition = condition

    async def send(self, request: Request) -> Response:
        status = {"conditions": [self.condition] if self.condition else []}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
        return Response(status=200, headers={}, body=msgspec.json.encode(body))

    def stream(self, request: Request) -> object:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def client(**condition: str) -> Client:
    server = Server(**condition)
    return Client(server, clock=VirtualClock(NOW), randomness=SeededRandomness(1))  # type: ignore[arg-type]  # no stream


async def test_a_terminal_state_is_the_outcome() -> None:
    done = await following.outcome_of(client(), event("Succeeded"), TRANSITION)
    assert done == following.Outcome(succeeded=True)
    failed = await following.outcome_of(client(), event("Failed", message="no"), TRANSITION)
    assert failed == following.Outcome(succeeded=False, message="no")
    late = await following.outcome_of(client(), event("SlaExpired", message="late"), TRANSITION)
    assert not late.succeeded


async def test_the_node_remembers_what_nobody_saw() -> None:
    told = {"type": "LifecycleTransition", "status": "True"}
    done = await following.outcome_of(client(**told, reason="DrainComplete"), event("Claimed"), TRANSITION)
    assert done.succeeded
    stuck = await following.outcome_of(
        client(**told, reason="DrainStarted", message="it failed"), event("Claimed"), TRANSITION
    )
    assert stuck.message == "event e is gone, and the node says DrainStarted: it failed"
    silent = await following.outcome_of(client(), event("Claimed"), TRANSITION)
    assert silent.message == "event e is gone, and the node says nothing"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (event(), "waits for the agent of the node"),
        (event(message="driver x is not registered"), "driver x is not registered"),
        (event("Claimed"), "claimed"),
        (event("Claimed", progress=Progress(done=1, total=3, unit="pods")), "1/3 pods gone"),
        (event("Claimed", progress=Progress(done=1, total=3, unit="pods"), message="m"), "1/3 pods gone; m"),
    ],
)
def test_where_it_stands(shown: LifecycleEvent, said: str) -> None:
    assert following.describe(shown) == said


async def test_why_nobody_takes_it_up() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert "is `fairlead agent` running" in await following.why_pending(client(**ready), "n", NOW)
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    why = await following.why_pending(client(**silent, lastTransitionTime="2026-03-01T11:00:00Z"), "n", NOW)
    assert why.startswith("the node is not ready since 2026-03-01T11:00:00Z (NodeStatusUnknown)")
