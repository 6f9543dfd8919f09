"""Metrics that are kept and can be scraped."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from kube_fairlead.base.metrics import process
from kube_fairlead.base.metrics.interfaces import LATENCY_BUCKETS, Counter, Gauge, Histogram, MetricConflict
from kube_fairlead.base.metrics.series import CounterFamily, Family, GaugeFamily, HistogramFamily

__all__ = ["CONTENT_TYPE", "PrometheusMetrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")

_Shape = tuple[str, tuple[str, ...], tuple[float, ...]]


class PrometheusMetrics:
    """A registry. Process metrics (`process_*`, `python_*`) only when asked for.

    Guarantees:
    1. One name is one metric: asked for again it is the same one, and as another kind it is a MetricConflict.
    2. No two metrics have a sample of the same name, nor would they as OpenMetrics.
    3. Metrics may be made, counted and read on any thread.
    """

    def __init__(self, *, process_metrics: bool = False) -> None:
        self._process_metrics = process_metrics
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Shape, Family[Any]]] = {}
        self._taken: dict[str, str] = {}  # which metric has samples of that name
        self._refreshing: list[Callable[[], None]] = []

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """The counter of that name."""
        made: CounterFamily = self._get_or_make(
            name, ("counter", tuple(labels), ()), lambda: CounterFamily(name, text, labels)
        )
        return made

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """The gauge of that name."""
        made: GaugeFamily = self._get_or_make(
            name, ("gauge", tuple(labels), ()), lambda: GaugeFamily(name, text, labels)
        )
        return made

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY_BUCKETS
    ) -> Histogram:
        """The histogram of that name."""
        made: HistogramFamily = self._get_or_make(
            name,
            # The bucket without a bound is always there, whether it is named or not.
            ("histogram", tuple(labels), tuple(bound for bound in buckets if bound != math.inf)),
            lambda: HistogramFamily(name, text, labels, buckets),
        )
        return made

    def before_exposition(self, refresh: Callable[[], None]) -> None:
        """Call this before metrics are read."""
        self._refreshing.append(refresh)

    def exposition(self) -> bytes:
        """All metrics as text."""
        for refresh in self._refreshing:
            refresh()
        families = "".join(family.exposition() for _, family in list(self._known.values()))
        return ((process.exposition() if self._process_metrics else "") + families).encode()

    def _get_or_make(self, name: str, shape: _Shape, make: Callable[[], Any]) -> Any:
        with self._lock:
            if name not in self._known:
                self._claim(name, shape)
                self._known[name] = shape, make()
            known, family = self._known[name]
        if known != shape:
            raise MetricConflict(f"metric {name} is a {_describe(known)} and cannot also be a {_describe(shape)}")
        return family

    def _claim(self, name: str, shape: _Shape) -> None:
        problem = _problem(name, shape)
        samples = _sample_names(name, shape[0])
        taken = next((self._taken[sample] for sample in samples if sample in self._taken), None)
        if problem is None and taken is not None:
            problem = f"it would have samples of metric {taken}"
        if problem is None and self._process_metrics and name.startswith(process.PREFIXES):
            problem = "it is a metric of the process"
        if problem is not None:
            shown = name if _NAME.fullmatch(name) else repr(name)
            raise MetricConflict(f"metric {shown} cannot be registered: {problem}")
        self._taken |= dict.fromkeys(samples, name)


def _problem(name: str, shape: _Shape) -> str | None:
    kind, labels, buckets = shape
    if not _NAME.fullmatch(name):
        return "that is not a Prometheus name"
    reserved = {"le"} if kind == "histogram" else set()
    if wrong := [label for label in labels if not _LABEL.fullmatch(label) or label in reserved]:
        return f"{wrong[0]!r} cannot be a label"
    if any(math.isnan(bound) for bound in buckets):
        return "one of its buckets is not a number"
    if list(buckets) != sorted(set(buckets)):
        return "its buckets do not ascend"
    return None


def _sample_names(name: str, kind: str) -> tuple[str, ...]:
    if kind == "histogram":
        return (name, f"{name}_bucket", f"{name}_count", f"{name}_sum")
    # OpenMetrics calls a counter by its name without the suffix.
    return (name, name.removesuffix("_total")) if kind == "counter" else (name,)


def _describe(shape: _Shape) -> str:
    kind, labels, buckets = shape
    parts = [f"labels {', '.join(labels)}" if labels else "no labels"]
    if buckets:
        parts.append(f"{len(buckets)} buckets")
    return f"{kind} with {' and '.join(parts)}"
