"""Metrics of admission, with the names and labels of the Kubernetes API server.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/metrics/metrics.go
"""

from __future__ import annotations

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics

__all__ = ["AdmissionMetrics"]

_STEP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_STEP_BUCKETS, 10.0, 25.0)
_LARGEST_CODE = 600
_WEBHOOK = ("name", "type", "operation", "rejected")


class AdmissionMetrics:
    """`apiserver_admission_*`: durations of the two phases and of each webhook, and rejections."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._steps = metrics.histogram(
            "apiserver_admission_step_admission_duration_seconds",
            "Duration of admission, by step, operation and whether it rejected the request.",
            ("type", "operation", "rejected"),
            buckets=_STEP_BUCKETS,
        )
        self._webhooks = metrics.histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Duration of webhook calls, by name, operation and whether the webhook rejected the request.",
            _WEBHOOK,
            buckets=_WEBHOOK_BUCKETS,
        )
        self._requests = metrics.counter(
            "apiserver_admission_webhook_request_total",
            "Webhook calls, by name, operation, code and whether the webhook rejected the request.",
            ("name", "type", "operation", "code", "rejected"),
        )
        self._rejections = metrics.counter(
            "apiserver_admission_webhook_rejection_count",
            "Requests rejected by a webhook, or because a webhook call failed.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._open = metrics.counter(
            "apiserver_admission_webhook_fail_open_count",
            "Failed webhook calls that were ignored (failurePolicy Ignore).",
            ("name", "type"),
        )

    def now(self) -> float:
        """Return the current time, to pass back when the step ends."""
        return self._clock.monotonic()

    def step(self, began: float, step: str, operation: str, *, rejected: bool) -> None:
        """Count that all plugins have admitted, or validated, one write."""
        series = self._steps.labels(step, operation, _flag(rejected))
        series.observe(self._clock.monotonic() - began)

    def webhook(self, began: float, name: str, step: str, operation: str, *, code: int, rejected: bool) -> None:
        """Count a call of a webhook. The code is that of its rejection, and 0 without a response."""
        told = _flag(rejected)
        self._webhooks.labels(name, step, operation, told).observe(self._clock.monotonic() - began)
        self._requests.labels(name, step, operation, str(min(code, _LARGEST_CODE)), told).inc()

    def refused(self, name: str, step: str, operation: str, *, code: int, failed: bool) -> None:
        """Count a write that a webhook rejected, or whose webhook call failed."""
        why = "calling_webhook_error" if failed else "no_error"
        self._rejections.labels(name, step, operation, why, str(min(code, _LARGEST_CODE))).inc()

    def failed_open(self, name: str, step: str) -> None:
        """Count a failed webhook call that was ignored."""
        self._open.labels(name, step).inc()


def _flag(value: bool) -> str:  # noqa: FBT001 - the value is the point
    return "true" if value else "false"
