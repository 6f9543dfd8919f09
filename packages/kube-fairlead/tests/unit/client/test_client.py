from __future__ import annotations

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock, VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.throttle import Throttle
from kube_fairlead.client.transport import Request, Response
from tests.unit.client import scripted


class Waiter:
    """A clock that never waits and remembers for how long it should have."""

    def __init__(self) -> None:
        self._real = VirtualClock()
        self.now = self._real.now
        self.monotonic = self._real.monotonic
        self.timeout = self._real.timeout
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


async def test_a_busy_server_is_asked_again_when_it_said() -> None:
    clock = Waiter()
    busy = scripted.answers(scripted.status(429, "TooManyRequests"), status=429, Retry_After="3")
    async with scripted.serving() as server, scripted.client_for(server.url, clock=clock) as client:
        server.script(busy, busy, scripted.answers({"ok": True}))
        assert (await client.request("POST", "/x", body={"a": 1})).status == 200
        assert [seen.body for seen in server.seen] == [b'{"a":1}'] * 3
    assert [round(seconds) for seconds in clock.waited] == [3, 3]


async def test_it_gives_up_in_the_end_with_the_servers_words() -> None:
    clock = Waiter()
    async with scripted.serving() as server, scripted.client_for(server.url, clock=clock) as client:
        server.script(scripted.answers(scripted.status(503, "ServiceUnavailable", "shutting down"), status=503))
        with pytest.raises(api_errors.ServiceUnavailable, match="shutting down"):
            await client.request("GET", "/x")
        assert len(server.seen) == 6


async def test_a_read_survives_a_reset_connection() -> None:
    clock = Waiter()
    async with scripted.serving() as server, scripted.client_for(server.url, clock=clock) as client:
        server.script(scripted.hangs_up(), scripted.hangs_up(), scripted.hangs_up(), scripted.answers({}))
        assert (await client.request("GET", "/x")).status == 200


async def test_a_write_does_not_because_it_may_have_happened() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(scripted.hangs_up())
        with pytest.raises(errors.ConnectionBroken):
            await client.request("POST", "/x", body={})
        assert len(server.seen) == 1


async def test_a_blocked_eviction_is_not_repeated() -> None:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    blocked = scripted.status(429, "TooManyRequests", message, causes=[{"reason": "DisruptionBudget"}])
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(scripted.answers(blocked, status=429))
        with pytest.raises(api_errors.TooManyRequests) as caught:
            await client.request("POST", "/x", body={})
        assert caught.value.has_cause("DisruptionBudget")
        assert len(server.seen) == 1


async def test_another_policy_on_the_same_connection() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(scripted.answers_text("busy", 503))
        with pytest.raises(api_errors.ServiceUnavailable):
            await client.with_retry(retry.NEVER).request("GET", "/x")
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("code", "body", "expected", "message"),
    [
        (404, "404 page not found", api_errors.NotFound, "the server could not find the requested resource"),
        (
            400,
            "Client sent an HTTP request to an HTTPS server.",
            api_errors.BadRequest,
            "the server rejected our request",
        ),
        (503, "<html>", api_errors.ServiceUnavailable, "the server is currently unable to handle the request"),
        (500, "boom", api_errors.InternalError, 'an error on the server ("boom") has prevented the request'),
        (403, "no", api_errors.Forbidden, "no"),
    ],
)
async def test_answers_that_are_no_status(
    code: int, body: str, expected: type[api_errors.ApiError], message: str
) -> None:
    async with scripted.serving() as server, scripted.client_for(server.url, policy=retry.NEVER) as client:
        server.script(scripted.answers_text(body, code))
        with pytest.raises(expected) as caught:
            await client.request("GET", "/x", resource=GroupResource("", "pods"), name="a")
        assert message in str(caught.value)


async def test_a_redirect_is_an_answer_that_no_api_server_gives() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(scripted.answers_text("", 302))
        with pytest.raises(errors.AnswerInvalid, match="302"):
            await client.request("GET", "/x")


class Counting:
    """A transport that only notes when it was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked: list[float] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(self._clock.monotonic())
        return Response(200, {}, b"{}")

    def stream(self, request: Request) -> None: ...

    async def close(self) -> None: ...


async def test_throttling_if_somebody_wants_it() -> None:
    clock = VirtualClock()
    transport = Counting(clock)
    client = Client(
        transport,  # type: ignore[arg-type]  # has no streams
        clock=clock,
        randomness=SeededRandomness(0),
        throttle=Throttle(clock, per_second=2, burst=3),
    )
    async with tasks.TaskScope("test") as scope:
        for number in range(6):
            scope.start(client.request("GET", "/x"), name=str(number))
        await clock.advance(10)
    assert transport.asked == [0, 0, 0, 0.5, 1.0, 1.5]


def test_a_throttle_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Throttle(VirtualClock(), per_second=0, burst=1)
