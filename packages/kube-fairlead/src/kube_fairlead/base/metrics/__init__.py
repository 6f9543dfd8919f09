"""Metrics of every component and of the API server: counters, gauges and histograms with labels, scraped as text.

`interfaces` is what a component asks for; `registry` keeps what it counts (`series`) and adds what every process
exposes (`process`); `discarded` is for a process that serves no /metrics. What is counted never belongs here, nor how
a page is served. A caller bounds the values of its labels: a series is kept for as long as its registry.
Before: nothing. After: every component.
"""

from __future__ import annotations

from kube_fairlead.base.metrics.discarded import DiscardedMetrics
from kube_fairlead.base.metrics.interfaces import (
    LATENCY_BUCKETS,
    Counter,
    Gauge,
    Histogram,
    MetricConflict,
    Metrics,
)
from kube_fairlead.base.metrics.registry import CONTENT_TYPE, PrometheusMetrics

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
