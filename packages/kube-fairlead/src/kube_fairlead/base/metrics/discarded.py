"""Metrics for a process that serves no /metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self

from kube_fairlead.base.metrics.interfaces import LATENCY_BUCKETS, Counter, Gauge, Histogram

__all__ = ["DiscardedMetrics"]


class DiscardedMetrics:
    """Metrics that are never read: every call is accepted and forgotten."""

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """A counter that counts nothing."""
        del name, text, labels
        return _DISCARDED

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """A gauge that shows nothing."""
        del name, text, labels
        return _DISCARDED

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY_BUCKETS
    ) -> Histogram:
        """A histogram that keeps nothing."""
        del name, text, labels, buckets
        return _DISCARDED

    def before_exposition(self, refresh: Callable[[], None]) -> None:
        """Nothing is ever read."""
        del refresh

    def exposition(self) -> bytes:
        """Nothing."""
        return b""


class _Discarded:
    """Every kind of metric at once, and none."""

    def labels(self, *values: str, **labels: str) -> Self:
        del values, labels
        return self

    def inc(self, amount: float = 1) -> None:
        pass

    def dec(self, amount: float = 1) -> None:
        pass

    def set(self, value: float) -> None:
        pass

    def observe(self, amount: float) -> None:
        pass

    def clear(self) -> None:
        pass


_DISCARDED: Final = _Discarded()
