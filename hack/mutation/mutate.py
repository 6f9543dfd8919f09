"""Mutate the product in one place after another, and check whether unit tests or the simulation notice.

    .venv/bin/python hack/mutation/mutate.py --seconds 1200 --record build/mutation.jsonl

Each mutant runs in a forked child in which functions have the changed code. Tests are collected once, and a mutant runs
only the tests that call the changed function. First all mutants run against the tests; then the simulation plays those
that no test noticed. Results are appended to the record at once, and a second run continues where the first one ended.
A mutant that survives both either behaves as the original or shows a gap in the tests.
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import json
import logging
import os
import pathlib
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Sequence

import pytest
from mutants import Mutant, apply, mutants_of

SOURCE = pathlib.Path("packages/kube-fairlead/src/kube_fairlead")
# The mutated modules, and the tests that must notice.
TARGETS = {
    "lifecycle": ["packages/kube-fairlead/tests/unit/lifecycle"],
    "election": [
        f"packages/kube-fairlead/tests/unit/election/test_{name}.py"
        for name in ("lease", "record", "candidate", "leadership", "bounds", "leaving", "fence", "guard", "leading")
    ],
    "cloud/ownership.py": [
        "packages/kube-fairlead/tests/unit/cloud/test_ownership.py",
        "packages/kube-fairlead/tests/unit/cloud/test_decision_table.py",
    ],
}
SIM_SEEDS = 3
# Much longer than tests and seeds take: a run that has not ended by then hangs.
TESTS_SECONDS, SEEDS_SECONDS = 60.0, 900.0
ARGUMENTS = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "--assert=plain", "-m", "not long"]
MISSED, FOUND, BROKEN = 10, 11, 12
BY_TESTS, BY_SIMULATION, SURVIVED = "found by tests", "found by the simulation", "survived"
NOT_NOTICED, NOT_TRIED = "not noticed by tests", "not tried"

Place = tuple[str, str]  # a file and a function in it


class Record:
    """The result of each mutant so far."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.outcomes: dict[str, str] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                self.outcomes[entry["mutant"]] = entry["outcome"]

    def add(self, mutant: Mutant, outcome: str) -> None:
        self.outcomes[str(mutant)] = outcome
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"mutant": str(mutant), "outcome": outcome}) + "\n")


class MutantRunner:
    """A pytest plugin that runs the tests for every mutant instead of once."""

    def __init__(self, mutants: Sequence[Mutant], record: Record, until: float) -> None:
        self._mutants = mutants
        self._record = record
        self._until = until
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        # It writes to the terminal by itself, which a child cannot redirect.
        session.config.pluginmanager.unregister(name="terminalreporter")
        callers = self._callers(session.items)
        for mutant in self._mutants:
            if str(mutant) in self._record.outcomes:
                continue
            if time.monotonic() > self._until:
                break
            items = callers[str(mutant.file), mutant.function]
            outcome = forked(functools.partial(self._tried, mutant, items), TESTS_SECONDS)
            self._record.add(mutant, {FOUND: BY_TESTS, MISSED: NOT_NOTICED}.get(outcome, NOT_TRIED))
            print(f"{self._record.outcomes[str(mutant)]}: {mutant}", flush=True)
        return True

    def _tried(self, mutant: Mutant, items: Sequence[pytest.Item]) -> int:
        if not apply(mutant):
            return BROKEN
        return FOUND if any(not self._passes(item) for item in items) else MISSED

    def _passes(self, item: pytest.Item) -> bool:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _callers(self, items: Sequence[pytest.Item]) -> dict[Place, list[pytest.Item]]:
        """The tests that run each function, the fastest first. Measured in a child, so that nothing has run here."""
        reading, writing = os.pipe()
        if not os.fork():
            os.close(reading)
            be_quiet()
            status = 1
            try:
                with os.fdopen(writing, "w") as answer:
                    for number, item in enumerate(items):
                        seconds, places = self._followed(item)
                        answer.write(json.dumps([number, seconds, sorted(places)]) + "\n")
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as answer:
            lines = [json.loads(line) for line in answer]
        os.wait()
        callers: dict[Place, list[pytest.Item]] = collections.defaultdict(list)
        for number, _, places in sorted(lines, key=lambda line: line[1]):
            for file, function in places:
                callers[file, function].append(items[number])
        return callers

    def _followed(self, item: pytest.Item) -> tuple[float, set[Place]]:
        files = {str(mutant.file.resolve()): str(mutant.file) for mutant in self._mutants}
        seen: set[types.CodeType] = set()

        def note(frame: types.FrameType, event: str, _argument: object) -> None:
            if event == "call":
                seen.add(frame.f_code)

        began = time.monotonic()
        sys.setprofile(note)
        try:
            passed = self._passes(item)
        finally:
            sys.setprofile(None)
        if not passed:
            raise pytest.UsageError(f"{item.nodeid} fails without any mutant")
        places = {
            (files[code.co_filename], code.co_qualname.split(".<locals>")[0])
            for code in seen
            if code.co_filename in files
        }
        return time.monotonic() - began, places


def played(mutant: Mutant) -> int:
    """In a child: whether a few seeds notice the mutant."""
    from kube_fairlead_lab.sim.runner import run
    from kube_fairlead_lab.sim.scenario import Scenario

    if not apply(mutant):
        return BROKEN
    logging.disable(logging.CRITICAL)
    broken = (run(seed, Scenario()).violation is not None for seed in range(1, SIM_SEEDS + 1))
    return FOUND if any(broken) else MISSED


def forked(run: Callable[[], int], timeout_seconds: float) -> int:
    """Run a mutant in a child. A mutant that hangs is noticed, too."""
    child = os.fork()
    if child:
        return _waited_for(child, timeout_seconds)
    be_quiet()
    outcome = BROKEN
    try:
        outcome = run()
    finally:
        os._exit(outcome)


def _waited_for(child: int, timeout_seconds: float) -> int:
    # Measured from outside: tests may use alarms themselves.
    until = time.monotonic() + timeout_seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return FOUND
        time.sleep(0.01)


def be_quiet() -> None:
    """In a child: discard the output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def main() -> int:
    """Run mutants until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="seed for the order of mutants")
    parser.add_argument("--only", default="", help="only this target: lifecycle, election or cloud/ownership.py")
    parser.add_argument("--record", type=pathlib.Path, default=pathlib.Path("build/mutation.jsonl"))
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    record = Record(options.record)
    groups: dict[str, list[Mutant]] = {}
    for target in TARGETS:
        if options.only not in {"", target}:
            continue
        place = SOURCE / target
        files = [place] if place.suffix else sorted(place.rglob("*.py"))
        groups[target] = [mutant for file in files for mutant in mutants_of(file)]
        random.Random(options.seed).shuffle(groups[target])
    for target, mutants in groups.items():
        if any(str(mutant) not in record.outcomes for mutant in mutants):
            pytest.main([*ARGUMENTS, *TARGETS[target]], plugins=[MutantRunner(mutants, record, until)])
    importlib.import_module("kube_fairlead_lab.sim.runner")  # once, for all children
    for mutant in (one for mutants in groups.values() for one in mutants):
        if record.outcomes.get(str(mutant)) == NOT_NOTICED and time.monotonic() < until:
            outcome = forked(functools.partial(played, mutant), SEEDS_SECONDS)
            record.add(mutant, {FOUND: BY_SIMULATION, MISSED: SURVIVED}.get(outcome, NOT_TRIED))
            print(f"{record.outcomes[str(mutant)]}: {mutant}", flush=True)
    for target, mutants in groups.items():
        counts = collections.Counter(record.outcomes.get(str(mutant), "left") for mutant in mutants)
        print(f"{target}: {', '.join(f'{count} {outcome}' for outcome, count in counts.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
