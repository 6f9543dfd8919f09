"""Finds the few actions of a plan that cause a failure, by delta debugging."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.runner import Outcome, run
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["ShrinkResult", "is_same_kind", "shrink"]

Play = Callable[[int, Scenario, Sequence[Action]], Outcome]

_MOST_RUNS: Final = 100
_MOST_SECONDS: Final = 300.0
# Details that differ between failures of one kind: brackets, quotes, and words with a number in them.
_PARTICULARS: Final = re.compile(r"\{.*\}|\[[^\]]*\]|'[^']+'|[^\s,:;]*\d[^\s,;]*")


@dataclasses.dataclass(frozen=True, slots=True)
class ShrinkResult:
    """The smallest plan found that fails in the same way."""

    scenario: Scenario
    actions: tuple[Action, ...]
    outcome: Outcome
    runs: int
    cut_short: str = ""  # why the search ended early
    is_interrupted: bool = False


def is_same_kind(one: Violation, other: Violation) -> bool:
    """Return whether both violate the same rule in the same way, apart from names and numbers."""
    return one.rule == other.rule and _PARTICULARS.sub("…", one.what) == _PARTICULARS.sub("…", other.what)


def shrink(
    failed: Outcome,
    scenario: Scenario,
    actions: Sequence[Action],
    *,
    play: Play = run,
    most_runs: int = _MOST_RUNS,
    most_seconds: float = _MOST_SECONDS,
    on_run: Callable[[int, int], None] = lambda _runs, _actions: None,
) -> ShrinkResult:
    """Remove actions while the failure stays the same.

    Each attempt is a whole run, so their number and time are limited. `on_run` gets the number of runs and of actions
    left. After an interrupt the result is the smallest plan found so far.
    """
    search = _Search(failed, scenario, tuple(actions), play, on_run)
    try:
        search.look(most_runs, most_seconds)
    except KeyboardInterrupt:
        return ShrinkResult(
            search.scenario, search.actions, search.outcome, search.runs, "interrupted", is_interrupted=True
        )
    except _Exhausted as limit:
        return ShrinkResult(search.scenario, search.actions, search.outcome, search.runs, str(limit))
    return ShrinkResult(search.scenario, search.actions, search.outcome, search.runs)


class _Exhausted(Exception):
    """The limit of time or runs is reached."""


class _Search:
    def __init__(
        self,
        failed: Outcome,
        scenario: Scenario,
        actions: tuple[Action, ...],
        play: Play,
        on_run: Callable[[int, int], None],
    ) -> None:
        if failed.violation is None:
            raise ValueError("only a failed run can be shrunk")
        self._violation = failed.violation
        self._play = play
        self._on_run = on_run
        self._clock = RealClock()
        self.scenario = scenario
        self.outcome = failed
        self.actions = _happened(actions, failed)
        self.runs = 0

    def look(self, most_runs: int, most_seconds: float) -> None:
        """Search until no action can be removed.

        Raises:
            _Exhausted: a limit is reached before that.
        """
        self._most_runs = most_runs
        self._most_seconds = most_seconds
        self._until = self._clock.monotonic() + most_seconds
        if self.scenario.network is not None:
            self._attempt(msgspec.structs.replace(self.scenario, network=None), self.actions)
        if self.actions:
            self._attempt(self.scenario, ())
        self._remove_pieces()

    def _remove_pieces(self) -> None:
        """Zeller's ddmin: remove halves, then quarters, down to single actions."""
        pieces = 2
        while len(self.actions) > 1:
            size = max(1, -(-len(self.actions) // pieces))
            starts = range(0, len(self.actions), size)
            if any(self._attempt(self.scenario, self._without(start, size)) for start in starts):
                pieces = max(2, pieces - 1)
            elif size == 1:
                return
            else:
                pieces = min(len(self.actions), pieces * 2)

    def _without(self, start: int, size: int) -> tuple[Action, ...]:
        return self.actions[:start] + self.actions[start + size :]

    def _attempt(self, scenario: Scenario, actions: tuple[Action, ...]) -> bool:
        if self.runs >= self._most_runs:
            raise _Exhausted(f"stopped after {self._most_runs} runs")
        if self._clock.monotonic() >= self._until:
            raise _Exhausted(f"stopped after {self._most_seconds:g} s")
        outcome = self._play(self.outcome.seed, scenario, actions)
        self.runs += 1
        fails = outcome.violation is not None and is_same_kind(outcome.violation, self._violation)
        if fails:
            self.scenario, self.actions, self.outcome = scenario, _happened(actions, outcome), outcome
        self._on_run(self.runs, len(self.actions))
        return fails


def _happened(actions: tuple[Action, ...], outcome: Outcome) -> tuple[Action, ...]:
    """Without the actions planned for after the failure: they need no attempt."""
    return tuple(action for action in actions if action.at <= outcome.virtual_seconds)
