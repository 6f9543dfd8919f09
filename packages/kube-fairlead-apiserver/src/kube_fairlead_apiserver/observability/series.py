"""Counters and histograms as plain numbers, for what is counted with every request.

They change on one thread only, so they need no locks. They become text when they are scraped.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["CounterSeries", "Family", "HistogramSeries"]


class CounterSeries:
    """One number, of one set of label values. A counter only goes up; a gauge may go down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The series in Prometheus' text format."""
        yield f"{name}{_braced(labels)} {self.value}"


class HistogramSeries:
    """How often values fell into which bucket, of one set of label values."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The series in Prometheus' text format, with cumulative buckets."""
        total = 0
        separator = "," if labels else ""
        for bound, count in zip((*map(_number, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{separator}le="{bound}"}} {total}'
        yield f"{name}_count{_braced(labels)} {total}"
        yield f"{name}_sum{_braced(labels)} {self._sum}"


S = TypeVar("S", CounterSeries, HistogramSeries)


class Family(Generic[S]):
    """All series of one name, by the values of its labels."""

    def __init__(self, name: str, kind: str, text: str, labels: Sequence[str], make: Callable[[], S]) -> None:
        self._head = f"# HELP {name} {text}\n# TYPE {name} {kind}"
        self._name = name
        self._labels = labels
        self._make: Callable[[], S] = make
        self._series: dict[tuple[str, ...], S] = {}

    def series(self, *values: str) -> S:
        """The series of these label values, in the order of the labels."""
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = self._make()
        return found

    def exposition(self) -> str:
        """The family in Prometheus' text format."""
        lines = [self._head]
        for values, series in self._series.items():
            pairs = zip(self._labels, values, strict=True)
            lines += series.lines(self._name, ",".join(f'{label}="{_escaped(value)}"' for label, value in pairs))
        return "\n".join(lines) + "\n"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(bound: float) -> str:
    return str(float(bound))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
