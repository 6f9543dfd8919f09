"""Metrics of all drains of a process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.lifecycle.drain.attempts import Cause
from kube_fairlead.lifecycle.drain.blockers import Blocker

__all__ = ["BlockedPods", "DrainMetrics"]


class BlockedPods:
    """The blocked pods of one drain."""

    def __init__(self, metrics: DrainMetrics) -> None:
        self._metrics = metrics
        self.counts: Mapping[Blocker, int] = {}

    def set(self, counts: Mapping[Blocker, int]) -> None:
        """Set the numbers of blocked pods by cause."""
        self._metrics.count()
        self.counts = counts
        self._metrics.show()


class DrainMetrics:
    """Counts evictions, blocked pods and the time that they were blocked, over all drains of the process.

    The time grows while a pod is blocked, and not only when it is evicted: alerts are for pods that stay blocked.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self._drains: set[BlockedPods] = set()
        self._counted = clock.monotonic()  # until when the time is counted
        self._answers = metrics.counter("fairlead_drain_evictions_total", "Requested evictions, by result.", ["result"])
        self._pods = metrics.gauge(
            "fairlead_drain_blocked_pods", "Pods whose eviction is blocked during a drain, by cause.", ["cause"]
        )
        self._seconds = metrics.counter(
            "fairlead_drain_blocked_seconds_total", "Seconds that pods were blocked, by cause.", ["cause"]
        )
        # Series start at 0 instead of missing, so that the first occurrence shows as an increase.
        for result in Cause:
            if result is not Cause.SENT:
                self._answers.labels(result=result.value)
        for cause in Blocker:
            self._seconds.labels(cause=cause.value)
        self.show()
        metrics.before_exposition(self.count)

    def answered(self, result: Cause) -> None:
        """Count one requested eviction by its result."""
        self._answers.labels(result=result.value).inc()

    @contextlib.contextmanager
    def drain(self) -> Iterator[BlockedPods]:
        """Count one drain while the block lasts; none of its pods is blocked afterwards."""
        blocked = BlockedPods(self)
        self._drains.add(blocked)
        try:
            yield blocked
        finally:
            blocked.set({})
            self._drains.discard(blocked)

    def count(self) -> None:
        """Count the time until now."""
        now = self._clock.monotonic()
        seconds, self._counted = now - self._counted, now
        for drain in self._drains:
            for cause, pods in drain.counts.items():
                self._seconds.labels(cause=cause.value).inc(pods * seconds)

    def show(self) -> None:
        """Publish how many pods are blocked now."""
        for cause in Blocker:
            self._pods.labels(cause=cause.value).set(sum(drain.counts.get(cause, 0) for drain in self._drains))
