"""Terms: how they begin and, above all, how they end."""

from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.election import (
    LeadershipLost,
    Rules,
    StopReason,
    Term,
    TermOverrun,
)
from tests.unit.election.stage import Stage
from tests.unit.election.world import LOCK, World


async def test_the_work_runs_only_in_a_term(stage: Stage, world: World) -> None:
    first = stage.start("a")
    await first.until_leading()
    second = stage.start("b")
    await world.clock.advance(60)
    assert stage.log == ["a begins 0"]
    assert first.leadership.term is not None
    assert second.leadership.term is None
    await stage.close()


async def test_a_step_down_ends_the_work_then_releases_then_follows(stage: Stage, world: World) -> None:
    first = stage.start("a")
    await first.until_leading()
    second = stage.start("b")
    await world.clock.advance(10)
    assert first.leadership.step_down()
    await second.until_leading()
    assert stage.log == ["a begins 0", "a ends yield", "b begins 1"]
    assert not first.task.done()
    # And back again, when the second yields in turn.
    assert second.leadership.step_down()
    await first.until_leading()
    assert stage.log[-1] == "a begins 2"
    await stage.close()


async def test_a_handover_takes_milliseconds(stage: Stage, world: World) -> None:
    first = stage.start("a")
    await first.until_leading()
    second = stage.start("b")
    await world.clock.advance(10)
    asked = world.clock.monotonic()
    first.leadership.step_down()
    await second.until_leading()
    assert world.clock.monotonic() - asked <= 0.05
    await stage.close()


async def test_who_stepped_down_leads_again_when_nobody_else_does(stage: Stage, world: World) -> None:
    only = stage.start("a")
    await only.until_leading()
    only.leadership.step_down()
    await world.clock.advance(5.9)
    assert stage.log == ["a begins 0", "a ends yield"]
    await world.clock.advance(0.2)
    assert stage.log == ["a begins 0", "a ends yield", "a begins 1"]
    await stage.close()


async def test_a_follower_has_nothing_to_step_down_from(stage: Stage, world: World) -> None:
    await stage.start("a").until_leading()
    follower = stage.start("b")
    await world.clock.advance(5)
    assert not follower.leadership.step_down()
    await stage.close()


async def test_renewals_go_on_while_the_work_ends(stage: Stage, world: World) -> None:
    async def slow(term: Term) -> None:
        await term.stopping.wait()
        await world.clock.sleep(40)

    leader = stage.start("a", slow, rules=Rules(shutdown_timeout_seconds=60, drain_seconds=None))
    await leader.until_leading()
    follower = stage.start("b")
    await world.clock.advance(10)
    leader.leadership.step_down()
    await world.clock.advance(39)
    record = await world.record()
    assert record.holder == "a"
    assert record.renew_time is not None
    assert (world.clock.now() - record.renew_time).total_seconds() < 3
    assert stage.log == ["a begins 0"]
    await follower.until_leading()
    assert stage.log == ["a begins 0", "a ends yield", "b begins 1"]
    await stage.close()


async def test_work_that_does_not_listen_is_cancelled_after_its_drain(stage: Stage, world: World) -> None:
    async def deaf(_term: Term) -> None:
        await asyncio.Event().wait()

    leader = stage.start("a", deaf, rules=Rules(drain_seconds=3))
    await leader.until_leading()
    leader.leadership.step_down()
    await world.clock.advance(2.9)
    assert stage.log == ["a begins 0"]
    await world.clock.advance(0.2)
    assert stage.log == ["a begins 0", "a ends yield"]
    assert (await world.record()).holder == ""
    await stage.close()


async def test_work_that_never_ends_ends_the_process_instead_of_releasing(stage: Stage, world: World) -> None:
    overruns: list[TermOverrun] = []
    enough = asyncio.Event()

    async def stubborn(_term: Term) -> None:
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                stage.log.append("refused")

    leader = stage.start("a", stubborn, overruns=overruns)
    await leader.until_leading()
    leader.leadership.step_down()
    await world.clock.advance(9.9)
    assert not overruns
    await world.clock.advance(0.2)
    assert [overrun.running for overrun in overruns] == [(f"term/{LOCK}/work",)]
    assert "work did not end within 10 s of the request to stop" in str(overruns[0])
    assert isinstance(leader.task.exception(), TermOverrun)
    assert (await world.record()).holder == "a"
    enough.set()
    await stage.close()
    await leader.leadership._tasks.close()


async def test_cancelling_is_the_request_to_stop(stage: Stage, world: World) -> None:
    async def careful(term: Term) -> None:
        await term.stopping.wait()
        await world.clock.sleep(1)
        stage.log.append("tidied up")

    leader = stage.start("a", careful)
    await leader.until_leading()
    leader.task.cancel()
    await leader.until_done()
    assert leader.task.cancelled()
    assert stage.log == ["a begins 0", "tidied up", "a ends exit"]
    assert (await world.record()).holder == ""


async def test_a_second_cancellation_does_not_wait_for_the_work_but_for_its_end(stage: Stage, world: World) -> None:
    async def slow(term: Term) -> None:
        await term.stopping.wait()
        await world.clock.sleep(4)
        stage.log.append("finished")

    leader = stage.start("a", slow)
    await leader.until_leading()
    leader.task.cancel()
    await world.clock.advance(1)
    leader.task.cancel()
    await world.clock.advance(0.01)
    assert leader.task.cancelled()
    assert stage.log == ["a begins 0", "a ends exit"]
    assert (await world.record()).holder == ""


async def test_a_cancelled_follower_is_gone_at_once(stage: Stage, world: World) -> None:
    await stage.start("a").until_leading()
    follower = stage.start("b")
    await world.clock.advance(5)
    follower.task.cancel()
    await world.clock.settle()
    assert follower.task.cancelled()
    assert (await world.record()).holder == "a"
    await stage.close()


async def test_a_lost_lease_cancels_the_work_at_once(stage: Stage, world: World) -> None:
    async def deaf(_term: Term) -> None:
        await asyncio.Event().wait()

    leader = stage.start("a", deaf)
    await leader.until_leading()
    follower = stage.start("b")
    await world.clock.advance(10)
    leader.network.cut()
    await world.clock.advance(10)
    assert stage.log == ["a begins 0", "a ends lost"]
    await follower.until_leading()
    assert stage.log[-1] == "b begins 1"
    # The ex-leader follows again when its network is back.
    leader.network.mend()
    await world.clock.advance(10)
    follower.leadership.step_down()
    await leader.until_leading()
    assert stage.log[-1] == "a begins 2"
    await stage.close()


async def test_a_stolen_lease_is_noticed_at_once(stage: Stage, world: World) -> None:
    leader = stage.start("a")
    await leader.until_leading()
    await world.clock.advance(10)
    stolen = (await world.record()).taken_by("thief", leader.leadership.candidate.timing, world.clock.now())
    await world.admin.of(Lease).modify(LOCK.name, stolen.onto, namespace=LOCK.namespace)
    await world.clock.settle()
    assert stage.log == ["a begins 0", "a ends lost"]
    await stage.close()


async def test_work_that_outlives_a_lost_lease_ends_the_process_before_others_can_lead(
    stage: Stage, world: World
) -> None:
    overruns: list[TermOverrun] = []

    async def lingering(_term: Term) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await world.clock.sleep(30)

    leader = stage.start("a", lingering, overruns=overruns)
    await leader.until_leading()
    await world.clock.advance(10)
    last = leader.leadership.candidate.candidacy.renewed
    assert last is not None
    leader.network.cut()
    await world.until(lambda: bool(overruns))
    assert last + 10 < world.clock.monotonic() <= last + 14
    assert "the lease is lost and work still runs" in str(overruns[0])
    assert f"term/{LOCK}/work" in overruns[0].running
    await world.clock.advance(30)
    await stage.close()


async def test_the_lease_may_be_lost_while_the_work_winds_down(stage: Stage, world: World) -> None:
    async def slow(term: Term) -> None:
        await term.stopping.wait()
        await world.clock.sleep(100)

    leader = stage.start("a", slow, rules=Rules(shutdown_timeout_seconds=200, drain_seconds=None))
    await leader.until_leading()
    leader.leadership.step_down()
    leader.network.cut()
    await world.clock.advance(12)
    assert stage.log == ["a begins 0", "a ends lost"]
    await stage.close()


async def test_the_lease_names_who_should_lead(stage: Stage, world: World) -> None:
    leader = stage.start("a")
    await leader.until_leading()
    stage.start("b")
    wanted = stage.start("c")
    await world.clock.advance(10)
    await world.admin.of(Lease).modify(
        LOCK.name,
        lambda found: wire.replace(
            found, spec=wire.replace(found.spec, preferred_holder="c", strategy="fairlead.dev/preferred")
        ),
        namespace=LOCK.namespace,
    )
    await wanted.until_leading()
    assert stage.log == ["a begins 0", f"a ends {StopReason.PREFERRED}", "c begins 1"]
    assert (await world.record()).preferred_holder == ""
    await stage.close()


async def test_who_yields_without_releasing_leaves_the_lease_to_others_until_it_has_run_out(
    stage: Stage, world: World
) -> None:
    keep = Rules(release=False)
    first = stage.start("a", rules=keep)
    await first.until_leading()
    stage.start("b", rules=keep)
    await world.clock.advance(5)
    first.leadership.step_down()
    await world.clock.advance(120)
    assert stage.log == ["a begins 0", "a ends yield", "b begins 1"]
    await world.admin.of(Lease).modify(
        LOCK.name,
        lambda found: wire.replace(found, spec=wire.replace(found.spec, preferred_holder="a", strategy="x.dev/any")),
        namespace=LOCK.namespace,
    )
    await world.clock.advance(120)
    assert stage.log[3:] == ["b ends preferred-holder", "a begins 2"]
    await stage.close()


async def test_a_preferred_holder_that_is_not_alive_costs_no_time_without_a_leader(stage: Stage, world: World) -> None:
    leader = stage.start("a")
    await leader.until_leading()
    await world.admin.of(Lease).modify(
        LOCK.name,
        lambda found: wire.replace(
            found, spec=wire.replace(found.spec, preferred_holder="nobody", strategy="fairlead.dev/preferred")
        ),
        namespace=LOCK.namespace,
    )
    await world.clock.advance(30)
    assert stage.log == ["a begins 0"], "it goes on leading"
    assert (await world.record()).preferred_holder == ""
    await stage.close()


async def test_work_that_returns_ends_the_leadership(stage: Stage, world: World) -> None:
    async def once(_term: Term) -> None:
        await world.clock.sleep(5)

    leader = stage.start("a", once)
    await leader.until_leading()
    await leader.until_done()
    assert leader.task.exception() is None
    assert (await world.record()).holder == ""


async def test_work_that_fails_releases_the_lease_and_tells(stage: Stage, world: World) -> None:
    async def broken(_term: Term) -> None:
        await world.clock.sleep(5)
        raise LookupError("no such thing")

    leader = stage.start("a", broken)
    await leader.until_leading()
    await leader.until_done()
    assert isinstance(leader.task.exception(), LookupError)
    assert (await world.record()).holder == ""


async def test_work_that_checks_first_is_a_lost_term_and_no_failure(stage: Stage, world: World) -> None:
    async def checking(term: Term) -> None:
        while True:
            term.check()
            await world.clock.sleep(0.5)

    leader = stage.start("a", checking)
    await leader.until_leading()
    leader.network.cut()
    await world.clock.advance(12)
    assert stage.log[:2] == ["a begins 0", "a ends None"] or stage.log[:2] == ["a begins 0", "a ends lost"]
    assert not leader.task.done()
    await stage.close()


class TestGatesOff:
    async def test_without_release_the_lease_is_left_to_expire(self, stage: Stage, world: World) -> None:
        leader = stage.start("a", rules=Rules(release=False))
        await leader.until_leading()
        follower = stage.start("b")
        await world.clock.advance(10)
        leader.task.cancel()
        await leader.until_done()
        assert (await world.record()).holder == "a"
        stopped = world.clock.monotonic()
        await follower.until_leading()
        assert 12 < world.clock.monotonic() - stopped < 15.1
        await stage.close()

    async def test_without_staying_a_lost_lease_ends_the_process(self, stage: Stage, world: World) -> None:
        leader = stage.start("a", rules=Rules(stay=False))
        await leader.until_leading()
        leader.network.cut()
        await world.clock.advance(15)
        assert isinstance(leader.task.exception(), LeadershipLost)
        assert str(leader.task.exception()) == "a leads kube-system/test no longer (lost)"


async def test_many_terms_leave_nothing_behind(stage: Stage, world: World) -> None:
    leader = stage.start("a", rules=Rules())
    await leader.until_leading()
    counts = set()
    for number in range(50):
        leader.leadership.step_down()
        await world.clock.advance(7)
        term = await leader.until_leading()
        assert term.number == number + 1
        counts.add(len(asyncio.all_tasks()))
    assert len(counts) == 1
    await stage.close()


@pytest.mark.parametrize(
    ("rules", "problem"),
    [({"shutdown_timeout_seconds": 0}, "shutdown_timeout_seconds"), ({"drain_seconds": -1}, "drain_seconds")],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Rules(**rules)  # type: ignore[arg-type]  # a table of cases has one type for all fields
