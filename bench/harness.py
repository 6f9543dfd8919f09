"""The harness of benchmarks: discovery, measurements and output."""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pkgutil
from collections.abc import Callable, Iterable, Iterator

import bench

__all__ = [
    "Bar",
    "Benchmark",
    "BenchmarkSkipped",
    "Measurement",
    "at_least",
    "at_most",
    "benchmark",
    "discover",
    "is_wanted",
    "run",
    "want_only",
]

_FRAME = frozenset({"__main__", "harness"})


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """The limit of a measurement."""

    sign: str
    limit: float
    holds: Callable[[float, float], bool]


def at_most(limit: float) -> Bar:
    """An upper limit."""
    return Bar("<=", limit, operator.le)


def at_least(limit: float) -> Bar:
    """A lower limit."""
    return Bar(">=", limit, operator.ge)


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One number. `note` explains it, e.g. with the number that it is compared to."""

    what: str
    value: float
    unit: str
    bar: Bar | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.bar is not None and not self.bar.holds(self.value, self.bar.limit)

    @property
    def verdict(self) -> str:
        return "" if self.bar is None else "MISSED" if self.missed else "ok"


class BenchmarkSkipped(Exception):
    """A benchmark cannot run on this machine; the message names the remedy."""


@dataclasses.dataclass(frozen=True, slots=True)
class Benchmark:
    """A named function that yields measurements."""

    name: str
    measure: Callable[[], Iterable[Measurement]]


_registered: dict[str, Benchmark] = {}
_only: list[str] = []


def want_only(texts: Iterable[str]) -> None:
    """Select the measurements whose name contains one of these, for long benchmarks; without any, measure all."""
    _only[:] = texts


def is_wanted(what: str) -> bool:
    """Whether a measurement of this name is selected. Only long benchmarks ask."""
    return not _only or any(text in what for text in _only)


def benchmark(name: str) -> Callable[[Callable[[], Iterable[Measurement]]], Callable[[], Iterable[Measurement]]]:
    """Register a function under this name."""

    def register(measure: Callable[[], Iterable[Measurement]]) -> Callable[[], Iterable[Measurement]]:
        if name in _registered:
            raise ValueError(f"two benchmarks have the name {name}")
        _registered[name] = Benchmark(name, measure)
        return measure

    return register


def discover() -> dict[str, Benchmark]:
    """Every benchmark in this folder, by name."""
    for module in pkgutil.iter_modules(bench.__path__):
        if module.name not in _FRAME:
            importlib.import_module(f"bench.{module.name}")
    return dict(sorted(_registered.items()))


def run(chosen: Iterable[Benchmark], *, must_run: bool, write: Callable[[str], object]) -> bool:
    """Run benchmarks one after another, and write each number at once.

    Args:
        chosen: the benchmarks to run.
        must_run: a benchmark that skips counts as failed.
        write: prints a line.

    Returns:
        Whether every limit is met.
    """
    write(_row("benchmark", "measure", "value", "bar", "", ""))
    good = True
    for one in chosen:
        for row, is_good in _rows(one, must_run=must_run):
            write(row)
            good = good and is_good
    return good


def _rows(one: Benchmark, *, must_run: bool) -> Iterator[tuple[str, bool]]:
    try:
        for measurement in one.measure():
            yield _describe(one.name, measurement), not measurement.missed
    except BenchmarkSkipped as reason:
        yield _row(one.name, "", "", "", "FAILED" if must_run else "skipped", str(reason)), not must_run
    except Exception as failure:  # noqa: BLE001 - the other benchmarks still run
        yield _row(one.name, "", "", "", "FAILED", f"{type(failure).__name__}: {failure}"), False


def _describe(name: str, measurement: Measurement) -> str:
    bar = measurement.bar
    return _row(
        name,
        measurement.what,
        f"{_number(measurement.value)} {measurement.unit}",
        f"{bar.sign} {_number(bar.limit)}" if bar else "",
        measurement.verdict,
        measurement.note,
    )


def _row(name: str, what: str, value: str, bar: str, verdict: str, note: str) -> str:
    return f"{name:<22}{what:<44}{value:>16}  {bar:<12}{verdict:<8}{note}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
