"""Plays many seeds in several processes, and reports what they covered."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Callable

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead_lab.sim.action_plan import FAULTS
from kube_fairlead_lab.sim.child_process import interrupts_blocked, kill_children, run_in_child, warm_up
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.runner import Outcome
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["Report", "fresh_seed", "play"]

_Future = concurrent.futures.Future[Outcome]

_STATE_CHANGES = frozenset(
    {
        "new -> Pending",
        "Pending -> Claimed",
        "Pending -> Failed",
        "Claimed -> Succeeded",
        "Claimed -> Failed",
        "Claimed -> SlaExpired",
        "Succeeded -> gone",
        "Failed -> gone",
        "SlaExpired -> gone",
    }
)

_COUNTED = ("handovers", "evictions", "machines shut down", "graceful deletions", "condition moves")


@dataclasses.dataclass(slots=True)
class Report:
    """The result of a campaign."""

    first_seed: int
    seconds: float = 0.0
    seeds: int = 0
    counted: int = 0
    virtual_seconds: float = 0.0
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failures: list[Outcome] = dataclasses.field(default_factory=list)
    is_interrupted: bool = False

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of one seed."""
        self.seeds += 1
        self.counted += outcome.counts_as_run
        self.virtual_seconds += outcome.virtual_seconds
        self.counts += outcome.counts
        self.faults += outcome.faults
        if outcome.violation is not None:
            self.failures.append(outcome)

    def __str__(self) -> str:
        moves = {name for name in self.counts if " -> " in name}
        kinds = [kind for kind in FAULTS if self.faults[kind]]
        missing = sorted(_STATE_CHANGES - moves)
        seen = len(_STATE_CHANGES) - len(missing)
        speed = self.seeds / max(self.seconds, 1e-9)
        failed, counted = len(self.failures), self.counted
        events, faults = self.counts["finished events"], self.faults.total()
        done = ", ".join(f"{self.counts[what]} {what}" for what in _COUNTED)
        lines = [
            f"{self.seeds} seeds from {self.first_seed}: {failed} failed, {counted} with enough events and faults",
            f"{speed:.2f} seeds/s, {self.virtual_seconds / 3600:.1f} virtual hours in {self.seconds:.0f} s",
            f"{events} events finished, {faults} faults, {len(kinds)} of {len(FAULTS)} planned kinds",
            done,
            f"state changes: {seen} of {len(_STATE_CHANGES)}{', missing: ' if missing else ''}{', '.join(missing)}",
        ]
        if self.is_interrupted:
            lines.append("interrupted: unfinished seeds are not counted")
        return "\n".join(lines)


def fresh_seed() -> int:
    """Return a random seed."""
    return int.from_bytes(SystemRandomness().token_bytes(4), "big")


def play(
    first_seed: int,
    scenario: Scenario,
    *,
    seeds: int | None,
    seconds: float | None = None,
    jobs: int = 1,
    twice: bool = False,
    on_failure: Callable[[Outcome], None] = lambda _outcome: None,
) -> Report:
    """Play consecutive seeds until `seeds` have been played or `seconds` have passed; each one is finished.

    With `twice` each seed is also played in a process with another hash seed, and both histories must be equal. After
    an interrupt the report covers the seeds that were finished.
    """
    clock = RealClock()
    began = clock.monotonic()
    report = Report(first_seed)
    others_children = multiprocessing.active_children()
    with contextlib.ExitStack() as stack:
        try:
            pools = [stack.enter_context(_pool(jobs)) for _ in range(2 if twice else 1)]
            running: dict[_Future, list[_Future]] = {}
            begun = 0
            while True:
                over = seconds is not None and clock.monotonic() - began >= seconds
                while len(running) < jobs and not over and (seeds is None or begun < seeds):
                    with interrupts_blocked():
                        first, *others = [pool.submit(run_in_child, first_seed + begun, scenario) for pool in pools]
                    running[first] = others
                    begun += 1
                if not running:
                    break
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for one in done:
                    outcome = _compared(one.result(), [other.result() for other in running.pop(one)])
                    report.add(outcome)
                    if outcome.violation is not None:
                        on_failure(outcome)
        except KeyboardInterrupt:
            report.is_interrupted = True
            for child in multiprocessing.active_children():
                if child not in others_children:
                    child.terminate()
    report.seconds = clock.monotonic() - began
    return report


def _pool(jobs: int) -> concurrent.futures.ProcessPoolExecutor:
    # Spawned, not forked: each process starts with a clean interpreter and its own hash seed.
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare)


def _compared(first: Outcome, others: list[Outcome]) -> Outcome:
    if first.violation is not None or all(other.digest == first.digest for other in others):
        return first
    what = f"seed {first.seed} had two different histories: {first.digest} and {others[0].digest}"
    return dataclasses.replace(first, violation=Violation("determinism", what))


def _exit_now(_signal: int, _frame: types.FrameType | None) -> None:
    # The parent sends SIGTERM to end it now; the pool would wait for the running seed.
    kill_children()
    os._exit(1)


def _prepare() -> None:
    signal.signal(signal.SIGTERM, _exit_now)
    # Coroutines of killed processes are destroyed at the end, and report errors then.
    sys.unraisablehook = lambda _what: None
    warm_up()
