from __future__ import annotations

import collections
from collections.abc import Sequence

import pytest

from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.runner import Outcome
from kube_fairlead_lab.sim.scenario import Scenario
from kube_fairlead_lab.sim.shrinker import is_same_kind, shrink

ACTIONS = [Action(float(number), "pause", number, number) for number in range(1, 41)]
FAILURE = Violation("1", "node node-4 has two Claimed events, e-11 and e-12")


def outcome(violation: Violation | None, seconds: float = 100.0) -> Outcome:
    return Outcome(7, "", violation, seconds, collections.Counter(), collections.Counter(), ())


class FakeRuns:
    """Fails when all of some actions are there; on a network that fails only, if so asked."""

    def __init__(self, *needed: int, seconds: float = 100.0, needs_network: bool = False) -> None:
        self.needed = set(needed)
        self.seconds = seconds
        self.needs_network = needs_network
        self.runs = 0

    def play(self, _seed: int, scenario: Scenario, actions: Sequence[Action]) -> Outcome:
        self.runs += 1
        fails = self.needed <= {action.number for action in actions} and (scenario.network or not self.needs_network)
        return outcome(FAILURE if fails else None, self.seconds)


@pytest.mark.parametrize("needed", [{3}, {3, 17, 40}, {1, 2}, set(), {5, 10, 15, 20, 25}])
def test_the_needed_actions_are_found(needed: set[int]) -> None:
    runs = FakeRuns(*needed)
    shrunk = shrink(outcome(FAILURE), Scenario(), ACTIONS, play=runs.play)
    assert {action.number for action in shrunk.actions} == needed
    assert shrunk.scenario.network is None
    assert (shrunk.runs, shrunk.cut_short) == (runs.runs, "")


def test_needed_network_faults_stay() -> None:
    shrunk = shrink(outcome(FAILURE), Scenario(), ACTIONS, play=FakeRuns(3, needs_network=True).play)
    assert shrunk.scenario.network is not None
    assert [action.number for action in shrunk.actions] == [3]


def test_later_actions_are_removed_without_a_run() -> None:
    seen: list[int] = []

    def play(seed: int, scenario: Scenario, actions: Sequence[Action]) -> Outcome:
        seen.append(max((action.number for action in actions), default=0))
        return FakeRuns(3).play(seed, scenario, actions)

    shrink(outcome(FAILURE, seconds=9.5), Scenario(), ACTIONS, play=play)
    assert max(seen) == 9


def test_runs_and_time_are_limited() -> None:
    runs = FakeRuns(3, 17, 40)
    shrunk = shrink(outcome(FAILURE), Scenario(), ACTIONS, play=runs.play, most_runs=5)
    assert (runs.runs, shrunk.runs, shrunk.cut_short) == (5, 5, "stopped after 5 runs")
    shrunk = shrink(outcome(FAILURE), Scenario(), ACTIONS, play=runs.play, most_seconds=0.0)
    assert (shrunk.runs, shrunk.cut_short) == (0, "stopped after 0 s")
    assert len(shrunk.actions) == 40


def test_an_interrupt_returns_the_best_result() -> None:
    runs = FakeRuns(3, 17)
    reported: list[tuple[int, int]] = []

    def play(seed: int, scenario: Scenario, actions: Sequence[Action]) -> Outcome:
        if runs.runs == 6:
            raise KeyboardInterrupt
        return runs.play(seed, scenario, actions)

    shrunk = shrink(
        outcome(FAILURE), Scenario(), ACTIONS, play=play, on_run=lambda runs, left: reported.append((runs, left))
    )
    assert shrunk.is_interrupted
    assert {3, 17} <= {action.number for action in shrunk.actions}
    assert 2 < len(shrunk.actions) < 40
    assert reported[-1] == (6, len(shrunk.actions))


def test_another_failure_is_not_followed() -> None:
    other = Violation("1", "something else entirely")

    def play(_seed: int, _scenario: Scenario, _actions: Sequence[Action]) -> Outcome:
        return outcome(other)

    assert len(shrink(outcome(FAILURE), Scenario(), ACTIONS, play=play, most_runs=9).actions) == 40


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("event e-1 lost its finalizer while Claimed", "event e-33 lost its finalizer while Claimed", True),
        ("event e-1 lost its finalizer while Claimed", "event e-1 lost its finalizer while Pending", False),
        ("node-1 is released after 3.5 s, and ['a', 'b'] run", "node-2 is released after 1.0 s, and ['c'] run", True),
        (
            "node-1 is released after 3.5 s, and ['a'] run",
            "node-1 is released after 3.5 s, and its node says no",
            False,
        ),
        ("event e-1 is still there, Claimed: {'x': {'y': 1}}", "event e-2 is still there, Claimed: {}", True),
        ("node node-1 says 'Patching' after ''", "node node-2 says 'Rebooting' after ''", True),
        ("node node-1 says 'Patching' after ''", "node node-1 says 'Patching' after 'Patched'", False),
    ],
)
def test_the_same_kind(one: str, other: str, same: bool) -> None:
    assert is_same_kind(Violation("3", one), Violation("3", other)) is same
    assert not is_same_kind(Violation("3", one), Violation("4", one))
