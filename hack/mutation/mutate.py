"""Change the product in one place after another, and see who notices: first its unit tests, then the simulation.

    .venv/bin/python hack/mutation/mutate.py --seconds 1200 --record build/mutation.jsonl

Each mutant lives in a forked child whose functions are given the changed code. Tests are collected once, and a mutant
meets only those that run the function it changes. First all mutants are shown to the tests; then those that no test
noticed are played. What was found out is written to the record at once, and a second run goes on where the first one
ended. What survives both is either equal in behaviour to the original or a hole in the tests.
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
# What is changed, and the tests that must notice.
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
# Much more than tests and seeds take: what has not ended by then never will.
TESTS_SECONDS, SEEDS_SECONDS = 60.0, 900.0
ARGUMENTS = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "--assert=plain", "-m", "not long"]
MISSED, FOUND, BROKEN = 10, 11, 12
BY_TESTS, BY_PLAY, SURVIVED = "found by tests", "found by the simulation", "survived"
UNNOTICED, HOPELESS = "not noticed by tests", "not tried"

Place = tuple[str, str]  # a file and a function in it


class Record:
    """What became of each mutant so far."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.outcomes: dict[str, str] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                told = json.loads(line)
                self.outcomes[told["mutant"]] = told["outcome"]

    def add(self, mutant: Mutant, outcome: str) -> None:
        self.outcomes[str(mutant)] = outcome
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"mutant": str(mutant), "outcome": outcome}) + "\n")


class Judge:
    """A plugin of pytest: where tests would be run once, they are run for every mutant."""

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
        # It has a door to the terminal of its own, which no child can shut.
        session.config.pluginmanager.unregister(name="terminalreporter")
        callers = self._callers(session.items)
        for mutant in self._mutants:
            if str(mutant) in self._record.outcomes:
                continue
            if time.monotonic() > self._until:
                break
            items = callers[str(mutant.file), mutant.function]
            outcome = forked(functools.partial(self._tried, mutant, items), TESTS_SECONDS)
            self._record.add(mutant, {FOUND: BY_TESTS, MISSED: UNNOTICED}.get(outcome, HOPELESS))
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
        """Which tests run which function, the quickest first. Found out in a child: here nothing may have run."""
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
    """In a child: whether a few seeds notice."""
    from kube_fairlead_lab.sim.runner import run
    from kube_fairlead_lab.sim.scenario import Scenario

    if not apply(mutant):
        return BROKEN
    logging.disable(logging.CRITICAL)
    broken = (run(seed, Scenario()).violation is not None for seed in range(1, SIM_SEEDS + 1))
    return FOUND if any(broken) else MISSED


def forked(judged: Callable[[], int], patience_seconds: float) -> int:
    """What becomes of a mutant, found out in a child. One that never ends is noticed, too."""
    child = os.fork()
    if child:
        return _waited_for(child, patience_seconds)
    be_quiet()
    outcome = BROKEN
    try:
        outcome = judged()
    finally:
        os._exit(outcome)


def _waited_for(child: int, patience_seconds: float) -> int:
    # From out here: an alarm inside would be the tests' own.
    until = time.monotonic() + patience_seconds
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
    """In a child: what it would print is its parent's to say."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def main() -> int:
    """Judge as many mutants as there is time for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="the order in which mutants are tried")
    parser.add_argument("--only", default="", help="a target: lifecycle, election or cloud/ownership.py")
    parser.add_argument("--record", type=pathlib.Path, default=pathlib.Path("build/mutation.jsonl"))
    told = parser.parse_args()
    until = time.monotonic() + told.seconds
    record = Record(told.record)
    groups: dict[str, list[Mutant]] = {}
    for target in TARGETS:
        if told.only not in {"", target}:
            continue
        place = SOURCE / target
        files = [place] if place.suffix else sorted(place.rglob("*.py"))
        groups[target] = [mutant for file in files for mutant in mutants_of(file)]
        random.Random(told.seed).shuffle(groups[target])
    for target, mutants in groups.items():
        if any(str(mutant) not in record.outcomes for mutant in mutants):
            pytest.main([*ARGUMENTS, *TARGETS[target]], plugins=[Judge(mutants, record, until)])
    importlib.import_module("kube_fairlead_lab.sim.runner")  # once, for all children
    for mutant in (one for mutants in groups.values() for one in mutants):
        if record.outcomes.get(str(mutant)) == UNNOTICED and time.monotonic() < until:
            outcome = forked(functools.partial(played, mutant), SEEDS_SECONDS)
            record.add(mutant, {FOUND: BY_PLAY, MISSED: SURVIVED}.get(outcome, HOPELESS))
            print(f"{record.outcomes[str(mutant)]}: {mutant}", flush=True)
    for target, mutants in groups.items():
        counts = collections.Counter(record.outcomes.get(str(mutant), "left") for mutant in mutants)
        print(f"{target}: {', '.join(f'{count} {outcome}' for outcome, count in counts.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
