"""The duration of `fairlead --help`, from the start of the process to its end."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.harness import Measurement, at_most, benchmark

BAR_MILLISECONDS = 150
RUNS = 15


@benchmark("help-time")
def measure() -> Iterator[Measurement]:
    script = pathlib.Path(sys.executable).with_name("fairlead")
    times = sorted(_run([str(script), "--help"]) for _ in range(RUNS))
    floor = min(_run([sys.executable, "-c", "pass"]) for _ in range(RUNS))
    note = f"best of {RUNS}; median {times[RUNS // 2]:.0f}, Python alone {floor:.0f}"
    yield Measurement("fairlead --help", times[0], "ms", at_most(BAR_MILLISECONDS), note)


def _run(command: list[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - before) * 1000
