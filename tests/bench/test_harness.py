from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import Bar, Benchmark, BenchmarkSkipped, Measurement, at_least, at_most, is_wanted, run, want_only

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (None, 5, ""),
        (at_most(5), 5, "ok"),
        (at_most(5), 5.1, "MISSED"),
        (at_least(5), 5, "ok"),
        (at_least(5), 4.9, "MISSED"),
    ],
)
def test_verdict(bar: Bar | None, value: float, verdict: str) -> None:
    measurement = Measurement("x", value, "MB", bar)
    assert (measurement.verdict, measurement.missed) == (verdict, verdict == "MISSED")


def good() -> Iterator[Measurement]:
    yield Measurement("size", 3, "MB", at_most(4), "small")


def bad() -> Iterator[Measurement]:
    yield Measurement("speed", 1234.5, "req/s", at_least(2000))


def broken() -> Iterator[Measurement]:
    yield Measurement("before", 1, "s")
    raise OSError("no disk")


def absent() -> list[Measurement]:
    raise BenchmarkSkipped("run: make kube")


@pytest.mark.parametrize(
    ("measure", "must_run", "good_end", "words"),
    [
        (good, True, True, ["size", "3 MB", "<= 4", "ok", "small"]),
        (bad, False, False, ["speed", "1,234 req/s", ">= 2,000", "MISSED"]),
        (broken, False, False, ["before", "FAILED", "OSError: no disk"]),
        (absent, False, True, ["skipped", "run: make kube"]),
        (absent, True, False, ["FAILED", "run: make kube"]),
    ],
)
def test_run(measure: object, *, must_run: bool, good_end: bool, words: list[str]) -> None:
    lines: list[str] = []
    chosen = [Benchmark("probe", measure), Benchmark("after", good)]  # type: ignore[arg-type] # a case is an object
    assert run(chosen, must_run=must_run, write=lines.append) is good_end
    text = "\n".join(lines)
    assert [word for word in words if word not in text] == []
    assert lines[-1].startswith("after")


def test_only_some_measurements() -> None:
    assert is_wanted("GET beside LIST")
    want_only(["beside GET", "CPU"])
    try:
        assert [is_wanted(what) for what in ("GET beside GET", "CPU of GET", "GET beside LIST")] == [True, True, False]
    finally:
        want_only([])


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *arguments], capture_output=True, text=True, check=False)


def test_the_foundation_is_measured() -> None:
    assert {"client-memory", "help-time"} <= set(bench("--list").stdout.split())


def test_an_unknown_name_is_bad_usage() -> None:
    done = bench("nope")
    assert done.returncode == 2
    assert "unknown benchmark nope; known " in done.stderr
