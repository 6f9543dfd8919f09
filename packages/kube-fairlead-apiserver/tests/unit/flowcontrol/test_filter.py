"""The filter on an event loop and virtual time: waiting, being refused, hanging up, and what is held until when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.tasks import TaskSet
from kube_fairlead_apiserver.attributes import ANONYMOUS, UserInfo
from kube_fairlead_apiserver.flowcontrol.filter import Budgets, FlowControl
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES, Query, Request, Response
from kube_fairlead_apiserver.http.streams import Stream
from kube_fairlead_apiserver.routing import RequestInfo

ALICE, BOB = UserInfo("alice"), UserInfo("bob")
CAROL = UserInfo("carol")  # is there, so that others have short passes
ADMIN = UserInfo("admin", groups=("system:masters",))


async def no_body() -> bytes:
    return b""


def request(
    path: str = "/api/v1/pods", *, headers: Mapping[str, str] | None = None, trusted: UserInfo | None = None
) -> Request:
    return Request("POST", path, Query({}), headers or {}, no_body, client_address="10.0.0.1", trusted_user=trusted)


class Endless(Stream):
    """The body of a watch."""

    @property
    def over(self) -> bool:
        return False

    def next_piece(self) -> bytes | None:
        raise AssertionError("is not read here")

    def listen(self, listener: Callable[[], None] | None) -> None:
        raise AssertionError("is not read here")

    def _release(self) -> None:
        """Holds nothing."""


class Server:
    """Handlers that answer when the test lets them."""

    def __init__(self, budgets: Budgets) -> None:
        self.clock = VirtualClock()
        self.metrics = PrometheusMetrics()
        self.flow = FlowControl(budgets, self.clock, self.metrics)
        self.gate = asyncio.Event()
        self.running: list[str] = []
        self.tasks = TaskSet("test", on_failure=lambda _error: None)  # a test looks at those it expects

    def send(
        self, user: UserInfo = ALICE, sent: Request | None = None, verb: str = "create", size: int = 0
    ) -> asyncio.Task[Response]:
        made = sent or request()

        async def answer() -> Response:
            self.running.append(user.name)
            try:
                await self.gate.wait()
            finally:
                self.running.remove(user.name)
            return Response(200, Endless() if verb == "watch" else b"x" * size)

        async def ask() -> Response:
            info = RequestInfo(made.path, verb, is_resource=made.path.startswith("/api"))
            return await self.flow.run(made, info, user, answer)

        return self.tasks.start(ask(), name="request")

    async def settled(self) -> None:
        """All turns that can begin have begun."""
        await self.clock.advance(0.001)

    def sample(self, name: str, *labels: str) -> float:
        for line in self.metrics.exposition().decode().splitlines():
            if line.startswith(name) and all(label in line for label in labels):
                return float(line.rpartition(" ")[2])
        return 0


@contextlib.asynccontextmanager
async def serving(budgets: Budgets) -> AsyncIterator[Server]:
    made = Server(budgets)
    try:
        yield made
    finally:
        await made.tasks.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving(Budgets(reading=4, mutating=4)) as made:
        yield made


def executing(server: Server, kind: str = "mutating") -> float:
    return server.sample("apiserver_flowcontrol_current_executing_requests", kind)


async def rejection(task: asyncio.Task[Response]) -> errors.TooManyRequests:
    with pytest.raises(errors.TooManyRequests) as caught:
        await task
    return caught.value


async def test_one_users_slow_requests_leave_seats_for_others(server: Server) -> None:
    for _ in range(6):
        server.send()
    await server.settled()
    assert server.running == ["alice", "alice"]
    server.send(BOB)
    await server.settled()
    assert server.running == ["alice", "alice", "bob"]
    assert server.sample("apiserver_flowcontrol_current_inqueue_requests", "mutating") == 4


async def test_a_request_past_the_queue_is_refused(server: Server) -> None:
    tasks = [server.send() for _ in range(11)]  # two run, eight wait
    error = await rejection(tasks[-1])
    assert error.details == {"retryAfterSeconds": 1}
    assert server.sample("apiserver_flowcontrol_rejected_requests_total", "queue-full", "mutating") == 1
    server.gate.set()
    for task in tasks[:-1]:
        assert (await task).status == 200


async def test_a_request_that_waits_too_long_is_refused(server: Server) -> None:
    tasks = [server.send() for _ in range(4)]
    await server.clock.advance(4.9)
    assert not tasks[2].done()
    await server.clock.advance(0.2)
    await rejection(tasks[2])
    await rejection(tasks[3])
    assert server.sample("apiserver_flowcontrol_rejected_requests_total", "time-out", "mutating") == 2
    assert server.sample("apiserver_flowcontrol_current_inqueue_requests", "mutating") == 0


async def test_who_is_not_held_to_it(server: Server) -> None:
    for _ in range(20):
        server.send(ADMIN)
        server.send(BOB, request(trusted=BOB))  # a client in this process
        server.send(ANONYMOUS, request("/readyz/ping"), verb="get")
    for _ in range(30):
        await server.settled()
    assert len(server.running) == 60
    assert executing(server) == executing(server, "readOnly") == 0


async def test_health_checks_of_one_address_take_turns(server: Server) -> None:
    server.send(CAROL, verb="get")
    for _ in range(50):
        server.send(ANONYMOUS, request("/healthz"), verb="get")
    server.send(BOB, verb="get")
    await asyncio.sleep(0)
    assert 1 < len(server.running) < 30
    assert "bob" in server.running
    for _ in range(30):
        await server.settled()
    assert len(server.running) == 52


async def test_requests_that_cannot_be_understood_take_turns_too(server: Server) -> None:
    server.send(CAROL, verb="get")
    refused = [server.tasks.start(server.flow.wait_turn(request()), name="refusal") for _ in range(50)]
    server.send(BOB, verb="get")
    await asyncio.sleep(0)
    assert server.running == ["carol", "bob"]
    assert 1 < sum(task.done() for task in refused) < 30
    await asyncio.gather(*refused)


async def test_what_has_waited_goes_on_a_few_at_a_time() -> None:
    """The answers to writes that became durable together resume their handlers in turns, the other user's first."""
    async with serving(Budgets()) as server:
        ended: list[str] = []

        def send(user: UserInfo) -> None:
            server.send(user).add_done_callback(lambda _: ended.append(user.name))

        for _ in range(60):
            send(ALICE)
        for _ in range(30):
            await server.settled()
        assert len(server.running) == 60
        send(BOB)
        await server.settled()
        server.gate.set()
        await asyncio.sleep(0)  # their handlers could go on
        await asyncio.sleep(0)
        assert 40 < len(server.running) <= 60
        for _ in range(30):
            await server.settled()
        assert ended.index("bob") < 20
        assert len(ended) == 61


@pytest.mark.parametrize("user", [BOB, ADMIN])
async def test_a_turn_of_another_user_is_charged_to_that_user(server: Server, user: UserInfo) -> None:
    """A connection took it for the user of the request before."""
    made = request()
    made.flow, made.reserved = server.flow._scheduler.flow("alice"), 0.0001
    served = made.flow.served
    alice = made.flow
    server.gate.set()
    await server.send(user, made)
    assert alice.served > served
    assert made.flow is not alice


async def test_callers_without_credentials_share_one_budget(server: Server) -> None:
    tasks = [server.send(ANONYMOUS, request("/version"), verb="get") for _ in range(12)]
    await rejection(tasks[-1])
    assert executing(server, "readOnly") == 2


@pytest.mark.parametrize("where", ["queue", "handler"])
async def test_a_client_that_hangs_up_leaves_nothing_behind(server: Server, where: str) -> None:
    tasks = [server.send(sent=request(headers={"content-length": "1000"})) for _ in range(4)]
    await server.settled()
    for task in tasks[2:] if where == "queue" else tasks[:2]:
        task.cancel()
    await server.settled()
    if where == "queue":
        assert server.sample("apiserver_flowcontrol_current_inqueue_requests", "mutating") == 0
    assert executing(server) == 2
    assert server.sample("fairlead_apiserver_inflight_bytes", "mutating") == 2000


async def test_a_client_that_hangs_up_when_its_turn_has_come(server: Server) -> None:
    """The seat was given to it in the same pass of the loop in which it was cancelled."""
    tasks = [server.send() for _ in range(3)]
    await server.settled()
    tasks[0].cancel()
    await asyncio.sleep(0)  # its seat is free, the third one's turn begins in the next pass
    asyncio.get_running_loop().call_soon(tasks[2].cancel)
    await server.settled()
    assert tasks[2].cancelled()
    assert executing(server) == 1
    server.send()
    await server.settled()
    assert executing(server) == 2


async def test_a_handler_that_fails_gives_its_seat_back(server: Server) -> None:
    async def fail() -> Response:
        raise errors.NotFound("no")

    made = request(headers={"content-length": "5"})
    with pytest.raises(errors.NotFound):
        await server.flow.run(made, RequestInfo(made.path, "create", is_resource=True), ALICE, fail)
    assert executing(server) == server.sample("fairlead_apiserver_inflight_bytes", "mutating") == 0


async def test_bytes_are_held_until_the_answer_is_sent(server: Server) -> None:
    def held() -> float:
        return server.sample("fairlead_apiserver_inflight_bytes", "mutating")

    task = server.send(sent=request(headers={"content-length": "70"}), size=30)
    await server.settled()
    assert held() == 70
    server.gate.set()
    response = await task
    assert (held(), executing(server)) == (30, 0)
    response.sent()
    assert held() == 0
    response.sent()
    assert held() == 0


async def test_answers_that_one_user_does_not_read_hold_up_that_user_only() -> None:
    async with serving(Budgets()) as server:
        server.gate.set()
        unread = await server.send(size=70 << 20)  # more than all bodies together may hold
        later = server.send()
        large = request(headers={"content-length": str(MAX_BODY_BYTES)})
        assert (await server.send(BOB, large)).status == 200
        await server.settled()
        assert not later.done()
        unread.sent()
        assert (await later).status == 200


async def test_without_fairness_requests_run_as_they_come() -> None:
    async with serving(Budgets(reading=1, mutating=1, enforced=False)) as server:
        for _ in range(300):
            server.send()
        await asyncio.sleep(0)
        assert len(server.running) == 300


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ({"content-length": str(MAX_BODY_BYTES)}, MAX_BODY_BYTES),
        ({"content-length": str(MAX_BODY_BYTES + 1)}, 0),  # refused unread
        ({"transfer-encoding": "chunked"}, MAX_BODY_BYTES),
        ({}, 0),
    ],
)
async def test_what_a_body_is_counted_for(server: Server, headers: dict[str, str], size: int) -> None:
    server.send(sent=request(headers=headers))
    await server.settled()
    assert server.sample("fairlead_apiserver_inflight_bytes", "mutating") == size


async def test_large_bodies_are_read_a_few_at_a_time() -> None:
    """About half of 64 MiB is eleven bodies of 3 MiB; the others wait with their bodies unread."""
    async with serving(Budgets()) as server:
        for _ in range(30):
            server.send(sent=request(headers={"content-length": str(MAX_BODY_BYTES)}))
        await server.settled()
        assert len(server.running) == 11
        server.send(BOB, request(headers={"content-length": str(MAX_BODY_BYTES)}))
        await server.settled()
        assert server.running.count("bob") == 1


async def test_a_watch_holds_a_seat_while_it_opens_only(server: Server) -> None:
    server.gate.set()
    watches = [server.send(verb="watch") for _ in range(9)]
    for watch in watches:
        await watch
    assert executing(server, "readOnly") == 0
    assert server.flow.open_watches == 9
    for watch in watches:
        watch.result().sent()
    assert server.flow.open_watches == 0


async def test_watches_with_long_selectors_are_bounded_by_the_bytes_of_those(server: Server) -> None:
    server.gate.set()

    def watch(user: UserInfo) -> asyncio.Task[Response]:
        long = request()
        long.target = "/api/v1/pods?watch=1&labelSelector=" + "a" * 60_000
        return server.send(user, long, verb="watch")

    opened: list[Response] = []
    with pytest.raises(errors.ApiError) as refused:  # noqa: PT012 - how many are opened is for the server to say
        for _ in range(200):
            opened.append(await watch(ALICE))  # noqa: PERF401 - one ends it
    assert refused.value.code == 429
    assert 10 < len(opened) < 100
    await watch(BOB)
    await server.send(verb="watch")  # an ordinary one
    for one in opened:
        one.sent()
    await watch(ALICE)


async def test_without_limits_users_take_turns_all_the_same() -> None:
    async with serving(Budgets(reading=0, mutating=0)) as server:
        server.send(CAROL)
        for _ in range(300):
            server.send()
        server.send(BOB)
        await asyncio.sleep(0)
        assert "bob" in server.running
        assert server.running.count("alice") < 30
        for _ in range(200):
            await server.settled()
        assert len(server.running) == 302


async def test_a_cancelled_refusal_does_not_stop_the_others(server: Server) -> None:
    server.send(CAROL, verb="get")
    tasks = [server.send() for _ in range(60)]
    await asyncio.sleep(0)
    waiting = [task for task in tasks[10:] if not task.done()]
    for task in waiting[:8]:
        task.cancel()
    for task in waiting[8:]:
        await rejection(task)


async def test_a_client_that_hangs_up_before_its_first_step(server: Server) -> None:
    """It has a seat and waits for its user's turn."""
    server.send(CAROL, verb="get")
    for _ in range(50):
        server.send(ANONYMOUS, request("/healthz"), verb="get")
    tasks = [server.send() for _ in range(2)]
    await asyncio.sleep(0)
    tasks += [server.send() for _ in range(2)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await server.settled()
    assert executing(server) == 0
    server.send(BOB)
    for _ in range(30):
        await server.settled()
    assert "bob" in server.running
