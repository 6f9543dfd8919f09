"""Metrics of admission, with the names and labels of the Kubernetes API server.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/metrics/metrics.go
"""

from __future__ import annotations

from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.observability.series import CounterSeries, Family, HistogramSeries

__all__ = ["AdmissionMetrics"]

_STEP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_STEP_BUCKETS, 10.0, 25.0)
_LARGEST_CODE = 600
_WEBHOOK = ("name", "type", "operation", "rejected")


class AdmissionMetrics:
    """`apiserver_admission_*`: durations of the two phases and of each webhook, and rejections."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps = Family(
            "apiserver_admission_step_admission_duration_seconds",
            "histogram",
            "Duration of admission, by step, operation and whether it rejected the request.",
            ("type", "operation", "rejected"),
            lambda: HistogramSeries(_STEP_BUCKETS),
        )
        self._webhooks = Family(
            "apiserver_admission_webhook_admission_duration_seconds",
            "histogram",
            "Duration of webhook calls, by name, operation and whether the webhook rejected the request.",
            _WEBHOOK,
            lambda: HistogramSeries(_WEBHOOK_BUCKETS),
        )
        self._requests = Family(
            "apiserver_admission_webhook_request_total",
            "counter",
            "Webhook calls, by name, operation, code and whether the webhook rejected the request.",
            ("name", "type", "operation", "code", "rejected"),
            CounterSeries,
        )
        self._rejections = Family(
            "apiserver_admission_webhook_rejection_count",
            "counter",
            "Requests rejected by a webhook, or because a webhook call failed.",
            ("name", "type", "operation", "error_type", "rejection_code"),
            CounterSeries,
        )
        self._open = Family(
            "apiserver_admission_webhook_fail_open_count",
            "counter",
            "Failed webhook calls that were ignored (failurePolicy Ignore).",
            ("name", "type"),
            CounterSeries,
        )

    def now(self) -> float:
        """The current time, to pass back when the step ends."""
        return self._clock.monotonic()

    def step(self, began: float, step: str, operation: str, *, rejected: bool) -> None:
        """All plugins have admitted, or validated, one write."""
        series = self._steps.series(step, operation, _flag(rejected))
        series.observe(self._clock.monotonic() - began)

    def webhook(self, began: float, name: str, step: str, operation: str, *, code: int, rejected: bool) -> None:
        """A webhook was called. The code is that of its rejection, and 0 without a response."""
        flag = _flag(rejected)
        self._webhooks.series(name, step, operation, flag).observe(self._clock.monotonic() - began)
        self._requests.series(name, step, operation, str(min(code, _LARGEST_CODE)), flag).value += 1

    def refused(self, name: str, step: str, operation: str, *, code: int, failed: bool) -> None:
        """A write was rejected by a webhook, or because the call failed."""
        why = "calling_webhook_error" if failed else "no_error"
        self._rejections.series(name, step, operation, why, str(min(code, _LARGEST_CODE))).value += 1

    def failed_open(self, name: str, step: str) -> None:
        """A webhook call failed and was ignored."""
        self._open.series(name, step).value += 1

    def exposition(self) -> bytes:
        """All series in Prometheus' text format."""
        families = (self._steps, self._webhooks, self._requests, self._rejections, self._open)
        return "".join(family.exposition() for family in families).encode()


def _flag(value: bool) -> str:  # noqa: FBT001 - the value is the point
    return "true" if value else "false"
