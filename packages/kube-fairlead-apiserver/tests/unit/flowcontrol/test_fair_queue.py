"""Whose step runs: the numbered invariants of `FairQueue`, and what a flood leaves to others."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.flowcontrol.fair_queue import (
    ALONE_SECONDS,
    BESIDE_SECONDS,
    PRESENT_SECONDS,
    STEP_SECONDS,
    FairQueue,
)

LONGEST_SECONDS = 0.003
LENGTHS = st.integers(0, round(LONGEST_SECONDS * 1e6))


class World:
    """An event loop as far as `FairQueue` sees it: passes, in which steps of known length ask and run."""

    def __init__(self) -> None:
        self.queue: FairQueue[tuple[str, float, int]] = FairQueue()
        self.log: list[str] = []  # users, in the order in which their steps ran
        self.now = 0.0
        self.used: Counter[str] = Counter()  # microseconds
        self.number = 0
        self.asked: dict[str, deque[int]] = {}

    def ask(self, user: str, seconds: float) -> bool:
        """A step asks; whether it ran at once."""
        flow = self.queue.flow(user, self.now)
        self.number += 1
        self.asked.setdefault(user, deque()).append(self.number)
        reserved = self.queue.take(flow)
        if reserved:
            self.run(user, seconds, self.number, reserved)
            return True
        self.queue.wait(flow, (user, seconds, self.number))
        return False

    def run(self, user: str, seconds: float, number: int, reserved: float) -> None:
        assert self.asked[user].popleft() == number, "invariant 1: in the order in which they asked"
        self.queue.ran(self.queue.flow(user, self.now), seconds, reserved)
        self.log.append(user)
        self.used[user] += round((seconds + STEP_SECONDS) * 1e6)
        self.now += seconds + STEP_SECONDS

    def turn(self) -> list[tuple[str, float, int]]:
        waiting = self.queue.waiting
        chosen = self.queue.turn()
        assert bool(chosen) == bool(waiting), "invariants 3 and 5"
        for step, reserved in chosen:
            self.run(*step, reserved)
        return [step for step, _ in chosen]


def test_steps_run_at_once_until_the_time_of_the_pass_is_used_up() -> None:
    world = World()
    ran = [world.ask("alone", 0.0002) for _ in range(200)]
    number = ran.count(True)
    assert ran == [True] * number + [False] * (200 - number)
    assert ALONE_SECONDS <= number * (0.0002 + STEP_SECONDS) < ALONE_SECONDS + 0.0002 + STEP_SECONDS
    while world.queue.waiting:
        world.turn()
    assert len(world.log) == 200


def test_passes_are_short_while_another_user_is_present() -> None:
    world = World()
    world.ask("quiet", 0.0)
    for _ in range(40):
        world.ask("loud", 0.0001)
    for _ in range(10):
        chosen = world.turn()
    assert len(chosen) * (0.0001 + STEP_SECONDS) < BESIDE_SECONDS + 0.0001 + STEP_SECONDS
    world.now += 2 * PRESENT_SECONDS
    for _ in range(40):
        world.ask("loud", 0.0001)
    assert len(world.turn()) > len(chosen)


def test_a_quiet_users_step_does_not_wait_behind_a_flood() -> None:
    world = World()
    for _ in range(200):
        world.ask("loud", 0.0003)
    for _ in range(20):
        assert world.ask("quiet", 0.0001), "it has used less"
        world.turn()


def test_of_two_floods_the_one_with_long_steps_gets_no_more_time() -> None:
    world = World()
    for _ in range(2000):
        world.ask("long", 0.004)
        world.ask("short", 0.0001)
    while world.used["long"] + world.used["short"] < 250_000:
        world.turn()
    assert 0.8 < world.used["long"] / world.used["short"] < 1.25


def test_time_that_was_not_used_is_not_saved_up() -> None:
    """Invariant 4."""
    world = World()
    world.ask("idle", 0.0)
    for _ in range(300):
        world.ask("busy", 0.001)
        world.turn()
    before = Counter(world.used)
    for _ in range(100):
        world.ask("busy", 0.001)
        world.ask("idle", 0.001)
    for _ in range(60):
        world.turn()
    gained = world.used - before
    assert 0.8 < gained["idle"] / gained["busy"] < 1.25


def test_more_users_than_fit_into_one_pass_wait_for_the_next() -> None:
    world = World()
    ran = [world.ask(f"user-{number}", 0.001) for number in range(100)]
    assert ran.count(True) < 10
    while world.queue.waiting:
        world.turn()
    assert len(set(world.log)) == 100


def test_users_who_are_gone_are_forgotten() -> None:
    world = World()
    for number in range(5000):
        world.ask(f"user-{number}", 0.0)
        world.turn()
        world.now += 0.1
    assert len(world.queue.flows) < 1000


def test_a_step_that_is_withdrawn_is_not_chosen() -> None:
    queue: FairQueue[str] = FairQueue()
    flow = queue.flow("a", 0.0)
    queue.ran(flow, 1.0, 0.0)
    queue.wait(flow, "first")
    queue.wait(flow, "second")
    queue.withdraw(flow, "first")
    queue.withdraw(flow, "first")
    assert [step for step, _ in queue.turn()] == ["second"]
    assert queue.waiting == 0
    assert queue.turn() == []


class Counted:
    """A step that counts how often it is compared with another one."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)


def test_a_mass_of_steps_is_withdrawn_one_by_one_without_a_search() -> None:
    queue: FairQueue[Counted] = FairQueue()
    flow = queue.flow("a", 0.0)
    queue.ran(flow, 1.0, 0.0)
    steps = [Counted() for _ in range(2000)]
    for step in steps:
        queue.wait(flow, step)
    for step in reversed(steps):
        queue.withdraw(flow, step)
    assert queue.waiting == 0
    assert Counted.comparisons < len(steps)
    assert queue.turn() == []


def test_a_user_whose_answer_is_still_being_sent_is_present() -> None:
    """Passes stay short for others, though its last request was long ago."""
    world = World()
    world.ask("reader", 0.0)
    world.now += 2 * PRESENT_SECONDS
    world.queue.flow("quiet", world.now)
    world.queue.note_presence(world.queue.flows["reader"], world.now)
    ran = [world.ask("quiet", 0.0001) for _ in range(40)]
    assert ran.count(True) < 10, "of a user alone all run at once"


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "turn"]), LENGTHS), max_size=200))
def test_any_order_of_events(events: list[tuple[str, int]]) -> None:
    world = World()
    for user, microseconds in events:
        if user == "turn":
            world.turn()
        else:
            least = min((s.served for s in world.queue.flows.values() if s.waiting), default=float("inf"))
            had = world.queue.flows[user].served if user in world.queue.flows else 0.0
            if world.ask(user, microseconds / 1e6) and least < float("inf"):
                assert had <= least + LONGEST_SECONDS + STEP_SECONDS, "invariant 2"
    while world.queue.waiting:
        world.turn()
    assert len(world.log) == sum(1 for user, _ in events if user != "turn")
