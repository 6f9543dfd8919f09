from __future__ import annotations

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.election import Candidate, NotLeading, StopReason, Term, guarded
from kube_fairlead.election.guard import FENCE_MARK, GuardedTransport
from tests.unit.election.world import LOCK, World


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=ObjectMeta(name=name))


def a_term(candidate: Candidate) -> Term:
    return Term(LOCK, identity="a", number=0, clock=candidate.clock, is_reliable=lambda: candidate.is_valid)


async def test_writes_stop_when_the_lease_cannot_be_relied_on(world: World) -> None:
    client = world.client("a")
    candidate = Candidate(client, LOCK, identity="a")
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, candidate.following():
        winning = scope.start(candidate.win(), name="win")
        await world.until(winning.done)
        maps = guarded(client, a_term(candidate)).of(core_v1.ConfigMap)
        await maps.create(config_map("x"))
        # The process sleeps past its renew deadline, and wakes in the middle of its work.
        await world.clock.advance(10)
        for write in (maps.create(config_map("y")), maps.delete("x"), maps.update(config_map("x"))):
            with pytest.raises(NotLeading, match="a cannot rely on the lease kube-system/test any more"):
                await write
        assert (await maps.get("x")).name == "x"
        with pytest.raises(api_errors.NotFound):
            await maps.get("y")


async def test_a_term_that_was_lost_is_over_whatever_the_clock_says(world: World) -> None:
    candidate = Candidate(world.client("a"), LOCK, identity="a")
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, candidate.following():
        winning = scope.start(candidate.win(), name="win")
        await world.until(winning.done)
        term = a_term(candidate)
        term.check()
        term.stop(StopReason.LOST)
        with pytest.raises(NotLeading):
            term.check()


@pytest.mark.parametrize(
    ("reasons", "counts"),
    [
        ([StopReason.YIELD, StopReason.EXIT], StopReason.YIELD),
        ([StopReason.EXIT, StopReason.LOST], StopReason.LOST),
        ([StopReason.LOST, StopReason.EXIT], StopReason.LOST),
    ],
)
async def test_the_first_reason_counts_unless_the_lease_is_lost(
    world: World, reasons: list[StopReason], counts: StopReason
) -> None:
    term = a_term(Candidate(world.admin, LOCK, identity="a"))
    for reason in reasons:
        term.stop(reason)
    assert term.stopping.is_set()
    assert term.stop_reason is counts


class Fence:
    """A server whose fence notices the new leader only after some refusals."""

    def __init__(self, refusals: int, *, status: int = 403, words: str = f"pod a {FENCE_MARK} x") -> None:
        self.refusals = refusals
        self.status = status
        self.words = words
        self.asked = 0

    async def send(self, request: Request) -> Response:
        self.asked += 1
        if self.asked <= self.refusals:
            return Response(self.status, {}, self.words.encode())
        return Response(201, {}, b"{}")

    def stream(self, request: Request) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("refusals", "status", "asked"), [(0, 201, 1), (3, 201, 4), (99, 403, 9)])
async def test_a_new_leader_waits_for_the_fence_to_see_it(world: World, refusals: int, status: int, asked: int) -> None:
    fence = Fence(refusals)
    transport = GuardedTransport(fence, lambda: None, client=world.admin)  # type: ignore[arg-type]  # no streams here
    async with tasks.TaskScope("test") as scope:
        sending = scope.start(transport.send(Request(method="POST", path="/x")), name="send")
        await world.until(sending.done)
    assert sending.result().status == status
    assert fence.asked == asked


@pytest.mark.parametrize(
    ("status", "words", "asked"),
    [(403, f"pod a {FENCE_MARK} x", 4), (422, f"pod a {FENCE_MARK} x", 4), (403, "no", 1), (409, f"{FENCE_MARK}", 1)],
)
async def test_only_a_refusal_by_the_fence_is_waited_out(world: World, status: int, words: str, asked: int) -> None:
    fence = Fence(3, status=status, words=words)
    transport = GuardedTransport(fence, lambda: None, client=world.admin)  # type: ignore[arg-type]  # no streams here
    async with tasks.TaskScope("test") as scope:
        sending = scope.start(transport.send(Request(method="POST", path="/x")), name="send")
        await world.until(sending.done)
    assert sending.result().status == (201 if asked == 4 else status)
    assert fence.asked == asked


async def test_an_ex_leader_does_not_wait_for_the_fence(world: World) -> None:
    fence, valid = Fence(99), [True, True, False]

    def check() -> None:
        if not valid.pop(0):
            raise NotLeading("over")

    transport = GuardedTransport(fence, check, client=world.admin)  # type: ignore[arg-type]  # no streams here
    async with tasks.TaskScope("test") as scope:
        sending = scope.start(_refused(transport), name="send")
        await world.until(sending.done)
    assert fence.asked == 2


async def _refused(transport: GuardedTransport) -> None:
    with pytest.raises(NotLeading):
        await transport.send(Request(method="POST", path="/x"))
