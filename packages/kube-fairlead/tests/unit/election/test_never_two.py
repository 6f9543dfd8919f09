"""Design, invariant 7: never two leaders' work at once among processes that run, whatever network and clocks do.

Several candidates on the embedded API server, each with a clock of its own speed, its own network, and work that takes
its time to end. Hypothesis writes the script.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import pathlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.election import Candidate, Leadership, Rules, Term, TermOverrun
from tests.unit.election.world import LOCK, World, a_world

# A leader rids itself of its work within 14 of its seconds, others wait for 15 of theirs: clocks may differ by 7 %.
SLOWEST, FASTEST = 0.97, 1.03
LEADER = -1


class OwnClock:
    """The machine's clock: as the world's, but faster or slower, and with a wall time that anybody may set."""

    def __init__(self, world: VirtualClock, rate: float) -> None:
        self._world = world
        self._rate = rate
        self.jump = dt.timedelta(0)

    def now(self) -> dt.datetime:
        return self._world.now() + self.jump

    def monotonic(self) -> float:
        return self._world.monotonic() * self._rate

    async def sleep(self, seconds: float) -> None:
        await self._world.sleep(seconds / self._rate)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return self._world.timeout(None if seconds is None else max(seconds / self._rate, 0))


class Process:
    """A candidate whose work takes its time to end, asked or cancelled."""

    def __init__(self, world: World, number: int, plan: Plan, at_work: dict[str, int]) -> None:
        self.name = f"p{number}"
        self.clock = OwnClock(world.clock, plan.rate)
        client = world.client(self.name, clock=self.clock, seed=number)
        self.network = world.network_of(client)
        self._plan = plan
        self._at_work = at_work
        self.ended = False
        candidate = Candidate(client, LOCK, identity=self.name)
        rules = Rules(drain_seconds=3, shutdown_timeout_seconds=8)
        self.leadership = Leadership(candidate, self._work, rules=rules, on_overrun=self._overrun)
        self.task: asyncio.Task[None] | None = None

    def start(self, running: tasks.TaskSet) -> None:
        self.ended = False
        self.task = running.start(self.leadership.run(), name=self.name)

    def kill(self) -> None:
        """As kill -9: nothing of it runs on, and nothing more is sent."""
        self.ended = True
        self.network.cut()
        self._at_work[self.name] = 0
        if self.task is not None:
            self.task.cancel()
            self.task.cancel()

    async def _work(self, term: Term) -> None:
        self._begin(+1)
        try:
            await term.stopping.wait()
            await self.clock.sleep(self._plan.seconds_to_end)
        finally:
            try:
                await self.clock.sleep(self._plan.seconds_to_tidy)
            finally:
                self._begin(-1)

    def _begin(self, change: int) -> None:
        if not self.ended:
            self._at_work[self.name] = self._at_work.get(self.name, 0) + change
            assert sum(self._at_work.values()) <= 1, f"two at work: {self._at_work}"

    def _overrun(self, _overrun: TermOverrun) -> None:
        self.kill()


@dataclasses.dataclass(frozen=True)
class Plan:
    rate: float
    seconds_to_end: float
    seconds_to_tidy: float


plans = st.builds(
    Plan,
    rate=st.floats(SLOWEST, FASTEST),
    seconds_to_end=st.sampled_from([0, 2, 20]),
    seconds_to_tidy=st.sampled_from([0, 3, 30]),
)
deeds = st.tuples(
    st.sampled_from(["cut", "mend", "slow", "quick", "lossy", "mute", "yield", "stop", "kill", "jump", "touch"]),
    st.sampled_from([LEADER, LEADER, 0, 1, 2]),
    st.sampled_from([0.01, 0.4, 1.5, 4, 6]),
)
pauses = st.sampled_from([0.01, 0.5, 3, 9.9, 15, 25])
scripts = st.lists(st.tuples(deeds, pauses), min_size=1, max_size=10)


@contextlib.asynccontextmanager
async def processes(world: World, plans: list[Plan]) -> AsyncIterator[list[Process]]:
    at_work: dict[str, int] = {}
    failures: list[BaseException] = []
    running = tasks.TaskSet("processes", on_failure=failures.append)
    started = [Process(world, number, plan, at_work) for number, plan in enumerate(plans)]
    for process in started:
        process.start(running)
    yield started
    for process in started:
        process.network.mend()
    async with tasks.TaskScope("test") as scope:
        await world.until(scope.start(running.close(), name="close").done, within_seconds=300)
        for process in started:
            closing = scope.start(process.leadership._tasks.close(), name="close")
            await world.until(closing.done, within_seconds=300)
    unexpected = [failure for failure in failures if not isinstance(failure, TermOverrun)]
    assert not unexpected, unexpected


async def do(world: World, process: Process, deed: str, amount: float) -> None:
    network = process.network
    match deed:
        case "cut":
            network.cut()
        case "mend":
            network.mend()
            network.is_mute = False
            network.loses_answer = lambda _: False
        case "slow":
            network.there = network.back = lambda: amount
        case "quick":
            network.there = network.back = lambda: 0.0
        case "lossy":
            network.loses_answer = lambda _: True
        case "mute":
            network.is_mute = True
        case "yield":
            process.leadership.step_down()
        case "stop":
            if process.task is not None:
                process.task.cancel()
        case "kill":
            process.kill()
        case "jump":
            process.clock.jump += dt.timedelta(hours=amount - 3)
        case "touch":
            with contextlib.suppress(Exception):
                lease = await world.lease()
                await world.admin.of(type(lease)).update(lease)


async def play(folder: pathlib.Path, plans: list[Plan], script: list[tuple[tuple[str, int, float], float]]) -> None:
    async with a_world(folder) as world, processes(world, plans) as started:
        await world.clock.advance(1)
        for (deed, who, amount), pause in script:
            leading = [one for one in started if one.leadership.term is not None]
            target = leading[0] if who == LEADER and leading else started[who % len(started)]
            await do(world, target, deed, amount)
            await world.clock.advance(pause)
        for process in started:
            await do(world, process, "quick", 0)
            await do(world, process, "mend", 0)
        await world.clock.advance(60)
        alive = [one for one in started if not one.ended and one.task is not None and not one.task.done()]
        # And they go on: whoever is left has a leader.
        if alive:
            assert (await world.record()).holder in {process.name for process in alive}


# The least favourable of all: the leader's clock is slow, the follower's fast, and the work takes for ever to end.
WORST = [Plan(SLOWEST, 20, 30), Plan(FASTEST, 20, 30)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(plans=WORST, script=[(("cut", LEADER, 0.01), 25)])
@example(plans=WORST[::-1], script=[(("cut", LEADER, 0.01), 25)])
@given(plans=st.lists(plans, min_size=2, max_size=3), script=scripts)
def test_never_two_at_work(
    server_folder: pathlib.Path, plans: list[Plan], script: list[tuple[tuple[str, int, float], float]]
) -> None:
    asyncio.run(play(server_folder, plans, script))


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plans=st.lists(plans, min_size=2, max_size=3), script=scripts)
def test_never_two_at_work_a_thousand_times(
    server_folder: pathlib.Path, plans: list[Plan], script: list[tuple[tuple[str, int, float], float]]
) -> None:
    asyncio.run(play(server_folder, plans, script))
