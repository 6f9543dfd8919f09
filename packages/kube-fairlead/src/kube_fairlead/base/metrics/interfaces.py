"""What a component needs to have metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["LATENCY_BUCKETS", "Counter", "Gauge", "Histogram", "MetricConflict", "Metrics"]

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Counter(Protocol):
    """A number that only grows."""

    def labels(self, *values: str, **labels: str) -> Counter:
        """The series with these label values: all by name, or all in the order of the labels, which is faster."""
        ...

    def inc(self, amount: float = 1) -> None:
        """Count up."""
        ...


class Gauge(Protocol):
    """A number that goes up and down."""

    def labels(self, *values: str, **labels: str) -> Gauge:
        """The series with these label values, as of a counter."""
        ...

    def set(self, value: float) -> None:
        """Make it this."""
        ...

    def inc(self, amount: float = 1) -> None:
        """Go up."""
        ...

    def dec(self, amount: float = 1) -> None:
        """Go down."""
        ...

    def clear(self) -> None:
        """Forget all series: nothing is known any more."""
        ...


class Histogram(Protocol):
    """How often values fell into which bucket."""

    def labels(self, *values: str, **labels: str) -> Histogram:
        """The series with these label values, as of a counter."""
        ...

    def observe(self, amount: float) -> None:
        """Count one value."""
        ...


class MetricConflict(ValueError):
    """Raised when one name is asked for as two different metrics, or is no name at all."""


class Metrics(Protocol):
    """A component asks for its metrics as often as it likes, in every term of office and every test.

    The same name gives the same metric.
    """

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """The counter of that name, made at the first call. By convention the name ends in `_total`."""
        ...

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """The gauge of that name."""
        ...

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY_BUCKETS
    ) -> Histogram:
        """The histogram of that name."""
        ...

    def before_exposition(self, refresh: Callable[[], None]) -> None:
        """Call this before metrics are read, for what grows with time and not with what happens."""
        ...

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format (`CONTENT_TYPE`)."""
        ...
