"""Numbers that are counted, and how they become text.

A series is one number, or one histogram, of one set of label values; a family is all series of one name. Each change
and each reading holds the lock of its family, so that threads may count: adding to a number is several steps in Python,
and a number that is set between them would be lost. Text is made only when metrics are read.
"""

from __future__ import annotations

import bisect
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["CounterFamily", "Family", "GaugeFamily", "HistogramFamily", "render"]


class _Series(Protocol):
    def lines(self) -> Iterator[str]:
        """As scrapers read it."""
        ...


S = TypeVar("S", bound=_Series)


class _Counter:
    __slots__ = ("_head", "_lock", "_value")

    def __init__(self, name: str, labels: str, lock: threading.Lock) -> None:
        self._head = f"{name}{_braced(labels)}"
        self._lock = lock
        self._value = 0.0

    def inc(self, amount: float = 1) -> None:
        if not amount >= 0:  # what is not a number would stay for ever
            raise ValueError(f"a counter only goes up, and cannot be changed by {amount}")
        with self._lock:
            self._value += amount

    def labels(self, *values: str, **labels: str) -> _Counter:
        raise _labelled(values, labels)

    def lines(self) -> Iterator[str]:
        with self._lock:
            value = self._value
        yield f"{self._head} {_number(value)}"


class _Gauge:
    __slots__ = ("_head", "_lock", "_value")

    def __init__(self, name: str, labels: str, lock: threading.Lock) -> None:
        self._head = f"{name}{_braced(labels)}"
        self._lock = lock
        self._value = 0.0

    def set(self, value: float) -> None:
        with self._lock:
            self._value = float(value)

    def inc(self, amount: float = 1) -> None:
        with self._lock:
            self._value += amount

    def dec(self, amount: float = 1) -> None:
        with self._lock:
            self._value -= amount

    def clear(self) -> None:
        self.set(0.0)

    def labels(self, *values: str, **labels: str) -> _Gauge:
        raise _labelled(values, labels)

    def lines(self) -> Iterator[str]:
        with self._lock:
            value = self._value
        yield f"{self._head} {_number(value)}"


class _Bounds:
    """The buckets of a histogram, and how each ends its line. The last one, without a bound, is always there."""

    __slots__ = ("ends", "upper")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.upper = tuple(bound for bound in buckets if bound != math.inf)
        self.ends = tuple(f'le="{_number(bound)}"}}' for bound in (*self.upper, math.inf))


class _Histogram:
    __slots__ = ("_bounds", "_counts", "_labels", "_lock", "_name", "_sum")

    def __init__(self, name: str, labels: str, lock: threading.Lock, bounds: _Bounds) -> None:
        self._name = name
        self._labels = labels
        self._lock = lock
        self._bounds = bounds
        self._counts = [0] * len(bounds.ends)
        self._sum = 0.0

    def observe(self, amount: float) -> None:
        if math.isnan(amount):
            return  # it is in no bucket, and the sum would not be a number ever after
        with self._lock:
            self._counts[bisect.bisect_left(self._bounds.upper, amount)] += 1
            self._sum += amount

    def labels(self, *values: str, **labels: str) -> _Histogram:
        raise _labelled(values, labels)

    def lines(self) -> Iterator[str]:
        """Every bucket holds what the smaller ones hold too."""
        with self._lock:
            counts, total_sum = tuple(self._counts), self._sum
        bucket = f"{self._name}_bucket{{{self._labels}{',' if self._labels else ''}"
        total = 0
        for end, total in zip(self._bounds.ends, itertools.accumulate(counts), strict=True):
            yield f"{bucket}{end} {total}.0"
        labels = _braced(self._labels)
        yield f"{self._name}_count{labels} {total}.0"
        yield f"{self._name}_sum{labels} {_number(total_sum)}"


class Family(Generic[S]):
    """All series of one name, by the values of its labels. One without labels has one series from the beginning."""

    KIND = ""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], make: Callable[[str, str, threading.Lock], S]
    ) -> None:
        self._head = _head(name, self.KIND, text)
        self._name = name
        self._labels = tuple(labels)
        self._lock = threading.Lock()
        self._make = make
        self._series: dict[tuple[str, ...], S] = {}
        if not self._labels:
            self.labels()

    def labels(self, *values: str, **labels: str) -> S:
        """The series with these label values."""
        if labels:
            if values or len(labels) != len(self._labels):
                raise ValueError(self._mismatch(values, labels))
            try:
                values = tuple([labels[label] for label in self._labels])
            except KeyError as error:
                raise ValueError(self._mismatch((), labels)) from error
        found = self._series.get(values)
        return found if found is not None else self._add(values)

    def clear(self) -> None:
        """Forget all series."""
        with self._lock:
            self._series = {}
        if not self._labels:
            self.labels()

    def exposition(self) -> str:
        """The family as scrapers read it."""
        lines = [self._head]
        with self._lock:
            known = list(self._series.values())
        for series in known:
            lines += series.lines()
        return "\n".join(lines) + "\n"

    def _add(self, values: tuple[str, ...]) -> S:
        if len(values) != len(self._labels):
            raise ValueError(self._mismatch(values, {}))
        # Sorted, as the client libraries of Prometheus write them.
        pairs = _pairs(sorted(zip(self._labels, values, strict=True)))
        # One of two threads that come at once wins, and both count on its series.
        with self._lock:
            return self._series.setdefault(values, self._make(self._name, pairs, self._lock))

    def _mismatch(self, values: tuple[str, ...], labels: dict[str, str]) -> str:
        given = ", ".join((*values, *(f"{label}={value}" for label, value in labels.items())))
        return f"metric {self._name} has labels ({', '.join(self._labels)}), got ({given})"


class CounterFamily(Family[_Counter]):
    """A counter."""

    KIND = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        super().__init__(name, text, labels, _Counter)

    def inc(self, amount: float = 1) -> None:
        """Count up, where there are no labels."""
        self.labels().inc(amount)


class GaugeFamily(Family[_Gauge]):
    """A gauge."""

    KIND = "gauge"

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        super().__init__(name, text, labels, _Gauge)

    def set(self, value: float) -> None:
        """Make it this, where there are no labels."""
        self.labels().set(value)

    def inc(self, amount: float = 1) -> None:
        """Go up."""
        self.labels().inc(amount)

    def dec(self, amount: float = 1) -> None:
        """Go down."""
        self.labels().dec(amount)


class HistogramFamily(Family[_Histogram]):
    """A histogram."""

    KIND = "histogram"

    def __init__(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        bounds = _Bounds(buckets)
        super().__init__(name, text, labels, lambda name, labels, lock: _Histogram(name, labels, lock, bounds))

    def observe(self, amount: float) -> None:
        """Count one value, where there are no labels."""
        self.labels().observe(amount)


def render(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> str:
    """A family of numbers that are read when metrics are, as scrapers read it."""
    lines = (f"{name}{_braced(_pairs(labels.items()))} {_number(value)}\n" for labels, value in samples)
    return f"{_head(name, kind, text)}\n{''.join(lines)}"


def _head(name: str, kind: str, text: str) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}"


def _pairs(labels: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{label}="{_escaped(value)}"' for label, value in labels)


def _labelled(values: tuple[str, ...], labels: dict[str, str]) -> ValueError:
    return ValueError(f"this series has its labels, and cannot have {values or labels} too")


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
