"""Metrics of request budgets, with the names and labels of Kubernetes' priority and fairness where it has them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/util/flowcontrol/metrics/metrics.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/metrics/metrics.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.flowcontrol.queues import Queues, Refusal
from kube_fairlead_apiserver.observability.series import CounterSeries, Family, HistogramSeries

__all__ = ["FlowMetrics", "LevelMetrics"]

_BUCKETS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LEVEL = ("priority_level", "flow_schema")


class LevelMetrics:
    """The series of one priority level, updated by every request."""

    __slots__ = ("_refusals", "_waited", "dispatched", "queues")

    def __init__(self, owner: FlowMetrics, name: str, queues: Queues) -> None:
        self.queues = queues
        self.dispatched = owner.dispatched.series(name, name)
        self._refusals = {why: owner.rejected.series(name, name, why.value) for why in Refusal}
        self._waited = {ran: owner.waited.series(name, name, ran) for ran in ("true", "false")}

    def refused(self, why: Refusal) -> None:
        """Count a rejected request."""
        self._refusals[why].value += 1

    def waited(self, seconds: float, *, ran: bool) -> None:
        """Count a request that left the queue."""
        self._waited["true" if ran else "false"].observe(seconds)


class FlowMetrics:
    """`apiserver_flowcontrol_*`. A level here is a kind of request; its one flow schema has the same name."""

    def __init__(self) -> None:
        prefix = "apiserver_flowcontrol"
        self.dispatched = Family(
            f"{prefix}_dispatched_requests_total", "counter", "Requests dispatched to a handler.", _LEVEL, CounterSeries
        )
        self.rejected = Family(
            f"{prefix}_rejected_requests_total",
            "counter",
            "Requests rejected with 429, by reason.",
            (*_LEVEL, "reason"),
            CounterSeries,
        )
        self.waited = Family(
            f"{prefix}_request_wait_duration_seconds",
            "histogram",
            "Time that queued requests waited, by whether they were executed.",
            (*_LEVEL, "execute"),
            lambda: HistogramSeries(_BUCKETS),
        )
        self._queued = Family(
            f"{prefix}_current_inqueue_requests", "gauge", "Requests waiting in a queue.", _LEVEL, CounterSeries
        )
        self._running = Family(
            f"{prefix}_current_executing_requests",
            "gauge",
            "Requests being executed; a watch counts until it is established.",
            _LEVEL,
            CounterSeries,
        )
        self._bytes = Family(
            "fairlead_apiserver_inflight_bytes",
            "gauge",
            "Bytes of request bodies and of unsent responses.",
            _LEVEL,
            CounterSeries,
        )
        self._levels: dict[str, Queues] = {}

    def level(self, name: str, queues: Queues) -> LevelMetrics:
        """The counters of one level."""
        self._levels[name] = queues
        return LevelMetrics(self, name, queues)

    def exposition(self) -> bytes:
        """All series in Prometheus' text format."""
        for name, queues in self._levels.items():
            self._queued.series(name, name).value = queues.places.total
            self._running.series(name, name).value = queues.seats.total
            self._bytes.series(name, name).value = queues.bodies.total + queues.answers.total
        families = (self.dispatched, self.rejected, self.waited, self._queued, self._running, self._bytes)
        return "".join(family.exposition() for family in families).encode()
