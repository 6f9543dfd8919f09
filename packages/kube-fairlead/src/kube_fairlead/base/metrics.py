"""Metrics: a registry of our own over prometheus_client, which is imported only when the first metric is made.

A component asks for its metrics as often as it likes, in every term of office and every test: the same name gives
the same metric. `DiscardedMetrics` is for a process that serves no /metrics; it never loads the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    import prometheus_client
    from prometheus_client.metrics_core import Metric

__all__ = [
    "CONTENT_TYPE",
    "LATENCY_BUCKETS",
    "Counter",
    "DiscardedMetrics",
    "Gauge",
    "Histogram",
    "MetricConflict",
    "Metrics",
    "PrometheusMetrics",
]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Counter(Protocol):
    """A number that only grows."""

    def labels(self, **labels: str) -> Self:
        """The child with these label values."""
        ...

    def inc(self, amount: float = 1) -> None:
        """Count up."""
        ...


class Gauge(Protocol):
    """A number that goes up and down."""

    def labels(self, **labels: str) -> Self:
        """The child with these label values."""
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
        """Forget all children: nothing is known any more."""
        ...


class Histogram(Protocol):
    """How often values fell into which bucket."""

    def labels(self, **labels: str) -> Self:
        """The child with these label values."""
        ...

    def observe(self, amount: float) -> None:
        """Count one value."""
        ...


class MetricConflict(ValueError):
    """Raised when one name is asked for as two different metrics, or is no name at all."""


class Metrics(Protocol):
    """What a component needs to have metrics."""

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


class PrometheusMetrics:
    """Metrics that are kept and can be scraped. Process metrics (`process_*`, `python_*`) only when asked for."""

    def __init__(self, *, process_metrics: bool = False) -> None:
        self._process_metrics = process_metrics
        self._registry: prometheus_client.CollectorRegistry | None = None
        self._known: dict[str, tuple[tuple[str, tuple[str, ...], tuple[float, ...]], Any]] = {}
        self._refreshing: list[Callable[[], None]] = []

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """The counter of that name."""
        counter: Counter = self._get_or_make("Counter", name, text, labels)
        return counter

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """The gauge of that name."""
        gauge: Gauge = self._get_or_make("Gauge", name, text, labels)
        return gauge

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY_BUCKETS
    ) -> Histogram:
        """The histogram of that name."""
        histogram: Histogram = self._get_or_make("Histogram", name, text, labels, tuple(buckets))
        return histogram

    def before_exposition(self, refresh: Callable[[], None]) -> None:
        """Call this before metrics are read."""
        self._refreshing.append(refresh)

    def exposition(self) -> bytes:
        """All metrics as text."""
        import prometheus_client

        for refresh in self._refreshing:
            refresh()
        return prometheus_client.generate_latest(_WithoutCreationTimes(self._load()))

    def _get_or_make(
        self, kind: str, name: str, text: str, labels: Sequence[str], buckets: tuple[float, ...] = ()
    ) -> Any:
        shape = (kind, tuple(labels), buckets)
        if name in self._known:
            known, metric = self._known[name]
            if known != shape:
                raise MetricConflict(f"metric {name} is a {_describe(known)} and cannot also be a {_describe(shape)}")
            return metric
        if not _NAME.fullmatch(name):
            # The library would take any text by now, and scrapers that do not would choke on it.
            raise MetricConflict(f"metric {name!r} cannot be registered: that is not a Prometheus name")
        registry = self._load()
        import prometheus_client

        options: dict[str, Any] = {"buckets": buckets} if buckets else {}
        make = getattr(prometheus_client, kind)
        try:
            metric = make(name, text, labelnames=tuple(labels), registry=registry, **options)
        except ValueError as error:
            # For example a gauge `x` beside a counter `x_total`: both would be the family `x`.
            raise MetricConflict(f"metric {name} cannot be registered: {error}") from error
        self._known[name] = (shape, metric)
        return metric

    def _load(self) -> prometheus_client.CollectorRegistry:
        if self._registry is None:
            import prometheus_client

            self._registry = prometheus_client.CollectorRegistry(auto_describe=True)
            if self._process_metrics:
                prometheus_client.ProcessCollector(registry=self._registry)
                prometheus_client.PlatformCollector(registry=self._registry)
                prometheus_client.GCCollector(registry=self._registry)
        return self._registry


class DiscardedMetrics:
    """Metrics that nobody will ever read: every call is accepted and forgotten."""

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

    def labels(self, **labels: str) -> Self:
        del labels
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


_DISCARDED = _Discarded()


class _WithoutCreationTimes:
    """A view of a registry without the `_created` series, which double the output and which nobody asked for.

    The library can drop them too, but only for the whole process, which is not ours to decide.
    """

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _describe(shape: tuple[str, tuple[str, ...], tuple[float, ...]]) -> str:
    kind, labels, buckets = shape
    parts = [f"labels {', '.join(labels)}" if labels else "no labels"]
    if buckets:
        parts.append(f"{len(buckets)} buckets")
    return f"{kind.lower()} with {' and '.join(parts)}"
