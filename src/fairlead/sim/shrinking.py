"""From a long run of bad luck to the few strokes that matter: delta debugging over the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from fairlead.sim.plan import Deed
from fairlead.sim.running import Outcome, run
from fairlead.sim.scenario import Scenario

__all__ = ["Shrunk", "shrink"]


@dataclasses.dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest plan found that still breaks the same rule."""

    scenario: Scenario
    deeds: tuple[Deed, ...]
    outcome: Outcome
    runs: int


def shrink(failed: Outcome, scenario: Scenario, deeds: Sequence[Deed], *, most_runs: int = 100) -> Shrunk:
    """Leave out whatever can be left out. Every attempt is a whole run, so there is a limit to them."""
    search = _Search(failed, scenario, tuple(deeds), most_runs)
    search.try_scenario(msgspec.structs.replace(scenario, network=None))
    search.cut_in_pieces()
    return Shrunk(search.scenario, search.deeds, search.outcome, search.runs)


class _Search:
    def __init__(self, failed: Outcome, scenario: Scenario, deeds: tuple[Deed, ...], most_runs: int) -> None:
        if failed.violation is None:
            raise ValueError("only a run that failed can be cut down")
        self._rule = failed.violation.rule
        self._most_runs = most_runs
        self.scenario = scenario
        self.deeds = deeds
        self.outcome = failed
        self.runs = 0

    def try_scenario(self, scenario: Scenario) -> None:
        self._attempt(scenario, self.deeds)

    def cut_in_pieces(self) -> None:
        """Zeller's ddmin: drop halves, then quarters, and so on down to single deeds."""
        pieces = 2
        while len(self.deeds) > 1 and self.runs < self._most_runs:
            size = max(1, -(-len(self.deeds) // pieces))
            starts = range(0, len(self.deeds), size)
            if any(self._attempt(self.scenario, self._without(start, size)) for start in starts):
                pieces = max(2, pieces - 1)
            elif size == 1:
                return
            else:
                pieces = min(len(self.deeds), pieces * 2)

    def _without(self, start: int, size: int) -> tuple[Deed, ...]:
        return self.deeds[:start] + self.deeds[start + size :]

    def _attempt(self, scenario: Scenario, deeds: tuple[Deed, ...]) -> bool:
        if self.runs >= self._most_runs:
            return False
        self.runs += 1
        outcome = run(self.outcome.seed, scenario, deeds)
        if outcome.violation is None or outcome.violation.rule != self._rule:
            return False
        self.scenario, self.deeds, self.outcome = scenario, deeds, outcome
        return True
