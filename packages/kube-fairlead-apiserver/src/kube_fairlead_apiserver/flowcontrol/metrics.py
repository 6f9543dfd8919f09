"""Metrics of request budgets, with the names and labels of Kubernetes' priority and fairness where it has them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/util/flowcontrol/metrics/metrics.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/metrics/metrics.go
"""

from __future__ import annotations

from kube_fairlead.base.metrics import Metrics
from kube_fairlead_apiserver.flowcontrol.queue_set import QueueSet, RejectReason

__all__ = ["FlowMetrics", "LevelMetrics"]

_BUCKETS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LEVEL = ("priority_level", "flow_schema")


class LevelMetrics:
    """The series of one priority level, updated by every request."""

    __slots__ = ("_rejections", "_waited", "dispatched", "queues")

    def __init__(self, owner: FlowMetrics, name: str, queues: QueueSet) -> None:
        self.queues = queues
        self.dispatched = owner.dispatched.labels(name, name)
        self._rejections = {why: owner.rejected.labels(name, name, why.value) for why in RejectReason}
        self._waited = {ran: owner.waited.labels(name, name, ran) for ran in ("true", "false")}

    def count_rejected(self, why: RejectReason) -> None:
        """Count a rejected request."""
        self._rejections[why].inc()

    def waited(self, seconds: float, *, ran: bool) -> None:
        """Count a request that left the queue."""
        self._waited["true" if ran else "false"].observe(seconds)


class FlowMetrics:
    """`apiserver_flowcontrol_*`. A level here is a kind of request; its one flow schema has the same name."""

    def __init__(self, metrics: Metrics) -> None:
        prefix = "apiserver_flowcontrol"
        self.dispatched = metrics.counter(
            f"{prefix}_dispatched_requests_total", "Requests dispatched to a handler.", _LEVEL
        )
        self.rejected = metrics.counter(
            f"{prefix}_rejected_requests_total", "Requests rejected with 429, by reason.", (*_LEVEL, "reason")
        )
        self.waited = metrics.histogram(
            f"{prefix}_request_wait_duration_seconds",
            "Time that queued requests waited, by whether they were executed.",
            (*_LEVEL, "execute"),
            buckets=_BUCKETS,
        )
        self._queued = metrics.gauge(f"{prefix}_current_inqueue_requests", "Requests waiting in a queue.", _LEVEL)
        self._running = metrics.gauge(
            f"{prefix}_current_executing_requests",
            "Requests being executed; a watch counts until it is established.",
            _LEVEL,
        )
        self._bytes = metrics.gauge(
            "fairlead_apiserver_inflight_bytes",
            "Bytes of request bodies and of unsent responses.",
            _LEVEL,
        )
        self._levels: dict[str, QueueSet] = {}
        metrics.before_exposition(self._refresh)

    def level(self, name: str, queues: QueueSet) -> LevelMetrics:
        """Return the counters of one level."""
        self._levels[name] = queues
        return LevelMetrics(self, name, queues)

    def _refresh(self) -> None:
        for name, queues in self._levels.items():
            self._queued.labels(name, name).set(queues.places.total)
            self._running.labels(name, name).set(queues.seats.total)
            self._bytes.labels(name, name).set(queues.bodies.total + queues.answers.total)
