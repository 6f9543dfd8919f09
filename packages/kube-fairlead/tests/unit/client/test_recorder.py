from __future__ import annotations

import json
from typing import Any

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.client.transport import Request, Response
from tests.unit.client import scripted

NODE = core_v1.Node(metadata=ObjectMeta(name="node-a", uid="u-1"))


class EventServer:
    """Keeps Events; fails as a test wants."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.failures: list[Exception | Response] = []
        self.hang = False

    async def send(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path.rpartition('/')[0]}")
        if self.hang:
            await scripted.never()
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        body = json.loads(request.body)
        if request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            return Response(201, {}, request.body)
        event = self.events.get(request.path.rpartition("/")[2])
        if event is None:
            return failed(404, "NotFound")
        event.update(body)
        return Response(200, {}, json.dumps(event).encode())

    def stream(self, request: Request) -> Any: ...

    async def close(self) -> None: ...

    @property
    def only(self) -> dict[str, Any]:
        assert len(self.events) == 1
        return next(iter(self.events.values()))


def failed(code: int, reason: str) -> Response:
    return Response(code, {}, json.dumps(scripted.status(code, reason)).encode())


def make(server: EventServer, clock: VirtualClock, **options: Any) -> EventRecorder:
    client = Client(server, clock=clock, randomness=SeededRandomness(0), retry_policy=retry.NEVER)
    return EventRecorder(client, controller="fairlead.dev/agent", instance="node-a", **options)


def record(recorder: EventRecorder, note: str = "it did", reason: str = "Happened", **options: Any) -> None:
    recorder.event(NODE, reason=reason, note=note, **options)


async def test_an_event_is_written() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder, type="Warning", action="Drain", related={"kind": "Pod", "metadata": {"name": "p"}})
        assert server.requests == []
        await clock.settle()
        assert server.requests == ["POST /apis/events.k8s.io/v1/namespaces/default"]
    event = server.only
    assert event.pop("metadata")["name"].startswith("node-a.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "fairlead.dev/agent",
        "reportingInstance": "node-a",
        "action": "Drain",
        "reason": "Happened",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "u-1"},
        "related": {"kind": "Pod", "name": "p"},
        "note": "it did",
        "type": "Warning",
    }


async def test_repetitions_are_counted_and_written_now_and_then() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.settle()
        for _ in range(4):
            record(recorder)
        await clock.advance(9)
        assert len(server.requests) == 1
        await clock.advance(2)
        assert len(server.requests) == 2
        assert server.only["series"] == {"count": 5, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
        record(recorder)
        await clock.advance(11)
        assert server.only["series"]["count"] == 6
        await clock.advance(60)
        assert len(server.requests) == 3


async def test_the_older_form() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock, api="v1")
    async with recorder.running():
        record(recorder)
        await clock.settle()
        record(recorder)
        await clock.advance(11)
    event = server.only
    assert server.requests == ["POST /api/v1/namespaces/default", "PATCH /api/v1/namespaces/default/events"]
    assert (event["count"], event["message"], event["reportingComponent"]) == (2, "it did", "fairlead.dev/agent")
    assert event["involvedObject"]["name"] == "node-a"


async def test_events_live_beside_their_object() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        recorder.event(core_v1.Pod(metadata=ObjectMeta(name="p", namespace="shop")), reason="R", note="")
    assert server.only["metadata"]["namespace"] == "shop"


async def test_what_is_left_is_written_at_the_end() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.settle()
        record(recorder)
        record(recorder, reason="Other")
    assert sorted(event["reason"] for event in server.events.values()) == ["Happened", "Other"]
    assert recorder.dropped == 0
    assert tasks.live_tasks() == ()


async def test_the_end_does_not_wait_for_ever() -> None:
    server, clock = EventServer(), VirtualClock()
    server.hang = True
    recorder = make(server, clock)

    async def live() -> None:
        async with recorder.running():
            record(recorder)
            record(recorder, reason="Other")

    async with tasks.TaskScope("test") as scope:
        scope.start(live(), name="live")
        await clock.advance(3)
    assert recorder.dropped == 2


@pytest.mark.parametrize("failure", [errors.ServerUnreachable("gone"), failed(503, "ServiceUnavailable")])
async def test_a_passing_failure_is_waited_out(failure: Exception | Response) -> None:
    server, clock = EventServer(), VirtualClock()
    server.failures = [failure, failure]
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.advance(10)
        assert len(server.events) == 1
    assert recorder.dropped == 0


async def test_a_lasting_failure_is_dropped() -> None:
    server, clock = EventServer(), VirtualClock()
    server.failures = [failed(403, "Forbidden")]
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.advance(60)
        assert (len(server.requests), recorder.dropped) == (1, 1)
        record(recorder)
        await clock.settle()
        assert len(server.events) == 1


async def test_a_server_that_stays_away_is_given_up() -> None:
    server, clock = EventServer(), VirtualClock()
    server.failures = [errors.ServerUnreachable("gone")] * 100
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.advance(3600)
        assert (len(server.requests), recorder.dropped) == (13, 1)


async def test_a_lost_answer_makes_no_second_event() -> None:
    server, clock = EventServer(), VirtualClock()
    server.failures = [errors.ConnectionBroken("lost"), failed(409, "AlreadyExists")]
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.advance(10)
    assert (len(server.requests), recorder.dropped) == (2, 0)


async def test_an_event_that_the_server_forgot_is_written_anew() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        record(recorder)
        await clock.settle()
        (old,) = server.events
        server.events.clear()
        record(recorder)
        await clock.advance(11)
    assert server.only["series"]["count"] == 2
    assert old not in server.events


async def test_the_waiting_line_is_bounded() -> None:
    server, clock = EventServer(), VirtualClock()
    server.hang = True
    recorder = make(server, clock, capacity=3)
    for number in range(5):
        record(recorder, reason=f"Reason{number}")
    assert recorder.dropped == 2


async def test_nonsense_does_not_fail_the_caller() -> None:
    recorder = make(EventServer(), VirtualClock())
    recorder.event(None, reason="R", note="n")  # type: ignore[arg-type]  # what a bug would do
    assert recorder.dropped == 1


async def test_limits_of_the_api_are_kept() -> None:
    server, clock = EventServer(), VirtualClock()
    recorder = make(server, clock)
    async with recorder.running():
        recorder.event({"kind": "X", "metadata": {"name": "Not a:Name"}}, reason="r" * 200, note="ü" * 1000)
    event = server.only
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("...")
    assert len(event["reason"]) == 128
    assert "Not" not in event["metadata"]["name"]
