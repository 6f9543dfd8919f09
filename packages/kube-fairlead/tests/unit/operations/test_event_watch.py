"""How an event ended, also if its end was not seen; and how its state is described."""

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
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.operations import event_watch
from kube_fairlead.operations.event_watch import LastState
from kube_fairlead.operations.progress import Outcome, Result

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
    done = await event_watch.outcome_of(client(), LastState(event("Succeeded")), TRANSITION)
    assert done == Outcome(Result.SUCCEEDED)
    failed = await event_watch.outcome_of(client(), LastState(event("Failed", message="no"), deleted=True), TRANSITION)
    assert failed == Outcome(Result.FAILED, "no")
    late = await event_watch.outcome_of(client(), LastState(event("SlaExpired", message="late")), TRANSITION)
    assert late.failed


CONDITION = {"type": "LifecycleTransition", "status": "True"}
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
async def test_the_node_has_the_end_that_was_not_seen(condition: dict[str, str], said: str | None, status: str) -> None:
    outcome = await event_watch.outcome_of(client(**CONDITION, **condition), LastState(event(status)), TRANSITION)
    assert outcome.failed is (said is not None)
    assert outcome.message == ("" if said is None else f"event e no longer exists, and the node's condition is {said}")


async def test_a_node_without_the_condition() -> None:
    silent = await event_watch.outcome_of(client(), LastState(event("Claimed")), TRANSITION)
    assert silent.message == "event e no longer exists, and the node has no condition of it"


@pytest.mark.parametrize(
    ("status", "when"), [("", "before it was claimed"), ("Claimed", "while its claimant carried it out")]
)
async def test_an_event_whose_deletion_was_seen_did_not_succeed(status: str, when: str) -> None:
    good = client(**CONDITION, reason="DrainComplete", message=GOOD, lastTransitionTime=AFTER)
    outcome = await event_watch.outcome_of(good, LastState(event(status), deleted=True), TRANSITION)
    assert outcome == Outcome(Result.FAILED, f"event e was deleted {when}")


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (event(), "waiting for the node's agent"),
        (event(message="driver x is not registered"), "driver x is not registered"),
        (event("Claimed"), "claimed"),
        (event("Claimed", progress=Progress(done=1, total=3, unit="pods")), "1/3 pods gone"),
        (event("Claimed", progress=Progress(done=1, total=3, unit="pods"), message="m"), "1/3 pods gone; m"),
    ],
)
def test_the_state_in_one_line(shown: LifecycleEvent, said: str) -> None:
    assert event_watch.describe(shown) == said
