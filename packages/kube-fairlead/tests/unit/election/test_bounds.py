"""How long things may take, and what becomes of work that ends by itself: the edges of a term."""

from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.client.transport import Request
from kube_fairlead.election import Candidate, NotLeading, Rules, StopReason, Term, TermOverrun
from tests.unit.election.stage import Stage
from tests.unit.election.world import LOCK, World


async def test_a_renewal_that_hangs_is_given_up_when_the_lease_is(stage: Stage, world: World) -> None:
    leader = stage.start("a")
    await leader.until_leading()
    await world.clock.advance(33)
    renewed = leader.leadership.candidate.candidacy.renewed
    assert renewed is not None
    leader.network.slow = lambda _request: 1000.0
    await world.clock.advance(renewed + 9.9 - world.clock.monotonic())
    assert stage.log == ["a begins 0"]
    await world.clock.advance(0.2)
    assert stage.log == ["a begins 0", "a ends lost"]
    await stage.close()


async def test_a_claim_that_comes_too_late_is_made_again_at_once(world: World) -> None:
    """Somebody touched the free Lease meanwhile: that is no reason to wait."""
    await world.admin.of(Lease).create(Lease(metadata=ObjectMeta(name=LOCK.name, namespace=LOCK.namespace)))
    client = world.client("a")
    network, candidate = world.network_of(client), Candidate(client, LOCK, identity="a")
    claims: list[float] = []

    def slow(request: Request) -> float:
        if request.method != "PUT":
            return 0.0
        claims.append(world.clock.monotonic())
        return 0.5 if len(claims) == 1 else 0.0

    network.slow = slow
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, candidate.following():
        winning = scope.start(candidate.win(), name="win")
        await world.until(lambda: len(claims) == 1)
        await world.admin.of(Lease).modify(
            LOCK.name, lambda found: wire.replace_metadata(found, labels={"a": "b"}), namespace=LOCK.namespace
        )
        await world.until(winning.done)
        assert len(claims) == 2
        assert claims[1] - claims[0] <= 0.56


async def test_who_lost_its_lease_leads_again_as_soon_as_it_can(stage: Stage, world: World) -> None:
    """Others had their chance while it was away; nobody came."""
    only = stage.start("a")
    await only.until_leading()
    only.network.cut()
    await world.clock.advance(12)
    assert stage.log == ["a begins 0", "a ends lost"]
    only.network.mend()
    await world.clock.advance(3)
    assert stage.log[-1].startswith("a begins")
    await stage.close()


@pytest.mark.parametrize(("seconds", "overran"), [(8.0, False), (12.0, True)])
async def test_tidying_up_has_its_time_and_no_more(stage: Stage, world: World, seconds: float, overran: bool) -> None:
    overruns: list[TermOverrun] = []
    end = asyncio.Event()

    async def tidy(term: Term) -> None:
        await term.stopping.wait()
        term.tidy_up()
        await end.wait()

    running = stage.start("a", tidy, rules=Rules(shutdown_timeout_seconds=10), overruns=overruns)
    await running.until_leading()
    running.leadership.step_down()
    await world.clock.advance(seconds)
    assert [overrun.why for overrun in overruns] == (
        ["work ended and does not come to an end with tidying up"] if overran else []
    )
    end.set()
    await stage.close()


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (NotLeading("over"), StopReason.LOST),
        (ExceptionGroup("two tasks", [NotLeading("over"), NotLeading("over")]), StopReason.LOST),
        (ExceptionGroup("two tasks", [NotLeading("over"), LookupError("x")]), StopReason.FAILED),
        (LookupError("x"), StopReason.FAILED),
        (asyncio.CancelledError(), StopReason.FAILED),
        (None, StopReason.FINISHED),
    ],
    ids=["loss", "losses", "loss and failure", "failure", "cancelled", "finished"],
)
async def test_why_a_term_ended(stage: Stage, world: World, raised: BaseException | None, reason: StopReason) -> None:
    terms: list[Term] = []

    async def work(term: Term) -> None:
        terms.append(term)
        await world.clock.sleep(3)
        if raised is not None:
            raise raised

    running = stage.start("a", work)
    await running.until_leading()
    await world.clock.advance(4)
    assert terms[0].stop_reason is reason
    failed = running.task.done() and not running.task.cancelled() and running.task.exception() is not None
    assert failed == (reason is StopReason.FAILED and not isinstance(raised, asyncio.CancelledError))
    # A lease that may be another's by now is left alone; any other is given back.
    assert ((await world.record()).holder == "") == (reason is not StopReason.LOST)
    await stage.close()
