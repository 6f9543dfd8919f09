"""Many seeds, on as many cores as there are, and what they covered."""

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
from kube_fairlead_lab.sim.child_process import interrupts_blocked, kill_children, run_in_child, warm_up
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.plan import FAULTS
from kube_fairlead_lab.sim.runner import Outcome
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["Report", "fresh_seed", "play"]

_Future = concurrent.futures.Future[Outcome]

_MOVES = frozenset(
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
    """What a campaign amounts to."""

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
        """One more seed was played."""
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
        missing = sorted(_MOVES - moves)
        speed = self.seeds / max(self.seconds, 1e-9)
        broken, counted = len(self.failures), self.counted
        events, faults = self.counts["finished events"], self.faults.total()
        done = ", ".join(f"{self.counts[what]} {what}" for what in _COUNTED)
        lines = [
            f"{self.seeds} seeds from {self.first_seed}: {broken} broken, {counted} with enough going on",
            f"{speed:.2f} seeds/s, {self.virtual_seconds / 3600:.1f} virtual hours in {self.seconds:.0f} s",
            f"{events} events finished, {faults} faults, {len(kinds)} of {len(FAULTS)} kinds beside the network's own",
            done,
            f"state moves: {len(_MOVES & moves)} of {len(_MOVES)}{', never ' if missing else ''}{', '.join(missing)}",
        ]
        if self.is_interrupted:
            lines.append("interrupted: seeds that were under way are not counted")
        return "\n".join(lines)


def fresh_seed() -> int:
    """One that nobody has played before."""
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
    """Play one seed after the other: so many, or for so long (a seed that has begun is finished), or what is less.

    With `twice` each is played again in a process that hashes differently, and must be the same to the last step. Who
    interrupts it gets the report of those that were over by then.
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
    # Spawned, not forked: each begins with a clean interpreter, wherever this one stands, and a hash seed of its own.
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=_get_ready)


def _compared(first: Outcome, others: list[Outcome]) -> Outcome:
    if first.violation is not None or all(other.digest == first.digest for other in others):
        return first
    what = f"seed {first.seed} played again was another history: {first.digest} and {others[0].digest}"
    return dataclasses.replace(first, violation=Violation("determinism", what))


def _leave(_signal: int, _frame: types.FrameType | None) -> None:
    # Told to by its parent, and not by a pool that would wait for what is under way.
    kill_children()
    os._exit(1)


def _get_ready() -> None:
    signal.signal(signal.SIGTERM, _leave)
    # What killed processes left behind is taken apart at the end, and complains of it.
    sys.unraisablehook = lambda _what: None
    warm_up()
