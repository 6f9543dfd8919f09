"""How an event ended, also when nobody saw it end; and what is said while it lasts."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
    Progress,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.cli.nodes import following
from kube_fairlead.cli.nodes.following import Last
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response

TRANSITION = LifecycleTransition(spec=LifecycleTransitionSpec(start="DrainStarted", end="DrainComplete"))
NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


def event(status: str = "", **more: object) -> LifecycleEvent:
    return LifecycleEvent(
        metadata=ObjectMeta(name="e", uid="u", creation_timestamp=NOW - dt.timedelta(seconds=1)),
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
    done = await following.outcome_of(client(), Last(event("Succeeded")), TRANSITION)
    assert done == following.Outcome(succeeded=True)
    failed = await following.outcome_of(client(), Last(event("Failed", message="no"), seen_to_go=True), TRANSITION)
    assert failed == following.Outcome(succeeded=False, message="no")
    late = await following.outcome_of(client(), Last(event("SlaExpired", message="late")), TRANSITION)
    assert not late.succeeded


TOLD = {"type": "LifecycleTransition", "status": "True"}
GOOD = "Lifecycle Transition 'node-drain'"
AFTER, BEFORE = "2026-03-01T12:00:00Z", "2026-03-01T11:59:58Z"


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"reason": "DrainComplete", "message": GOOD, "lastTransitionTime": AFTER}, None),
        (
            {"reason": "DrainComplete", "message": GOOD, "lastTransitionTime": BEFORE},
            f"DrainComplete since {BEFORE}: {GOOD}",
        ),
        (
            {"reason": "DrainComplete", "message": f"{GOOD} failed: no", "lastTransitionTime": AFTER},
            f"DrainComplete since {AFTER}: {GOOD} failed: no",
        ),
        ({"reason": "DrainStarted", "message": "it failed"}, "DrainStarted: it failed"),
    ],
)
@pytest.mark.parametrize("status", ["", "Claimed"])
async def test_the_node_remembers_what_nobody_saw(condition: dict[str, str], said: str | None, status: str) -> None:
    outcome = await following.outcome_of(client(**TOLD, **condition), Last(event(status)), TRANSITION)
    assert outcome.succeeded is (said is None)
    assert outcome.message == ("" if said is None else f"event e is gone, and the node says {said}")


async def test_a_node_that_says_nothing() -> None:
    silent = await following.outcome_of(client(), Last(event("Claimed")), TRANSITION)
    assert silent.message == "event e is gone, and the node says nothing"


@pytest.mark.parametrize(("status", "when"), [("", "before it was claimed"), ("Claimed", "while it was carried out")])
async def test_what_was_seen_to_go_did_not_succeed(status: str, when: str) -> None:
    good = client(**TOLD, reason="DrainComplete", message=GOOD, lastTransitionTime=AFTER)
    outcome = await following.outcome_of(good, Last(event(status), seen_to_go=True), TRANSITION)
    assert outcome == following.Outcome(succeeded=False, message=f"event e was deleted {when}")


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
