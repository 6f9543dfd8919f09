from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.base.metrics import DiscardedMetrics, MetricConflict, Metrics, PrometheusMetrics


def test_counter() -> None:
    metrics = PrometheusMetrics()
    metrics.counter("fairlead_claims_total", "Claims.", ["result"]).labels(result="won").inc()
    metrics.counter("fairlead_claims_total", "Claims.", ["result"]).labels(result="won").inc(2)
    assert metrics.exposition().decode() == (
        "# HELP fairlead_claims_total Claims.\n"
        "# TYPE fairlead_claims_total counter\n"
        'fairlead_claims_total{result="won"} 3.0\n'
    )


def test_gauge_and_histogram() -> None:
    metrics = PrometheusMetrics()
    gauge = metrics.gauge("fairlead_leader", "Leading?")
    gauge.set(5)
    gauge.inc()
    gauge.dec(2)
    metrics.histogram("fairlead_wait_seconds", "Waits.", buckets=(1, 5)).observe(3)
    text = metrics.exposition().decode()
    assert "fairlead_leader 4.0\n" in text
    assert 'fairlead_wait_seconds_bucket{le="1.0"} 0.0\n' in text
    assert 'fairlead_wait_seconds_bucket{le="5.0"} 1.0\n' in text
    assert "fairlead_wait_seconds_sum 3.0\n" in text
    assert "_created" not in text


def test_any_number_of_terms_registers_again() -> None:
    metrics = PrometheusMetrics()
    first = metrics.counter("fairlead_terms_total", "Terms.")
    for _ in range(100):
        counter = metrics.counter("fairlead_terms_total", "Terms.")
        assert counter is first
        counter.inc()
    assert b"fairlead_terms_total 100.0\n" in metrics.exposition()


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (
            lambda metrics: metrics.gauge("x_total", "X.", ["a"]),
            "is a counter with labels a and cannot also be a gauge",
        ),
        (lambda metrics: metrics.counter("x_total", "X."), "cannot also be a counter with no labels"),
        (lambda metrics: metrics.counter("x_total", "X.", ["a", "b"]), "counter with labels a, b"),
        (lambda metrics: metrics.gauge("x", "X."), "metric x cannot be registered"),
        (lambda metrics: metrics.gauge("not a name", "X."), "'not a name' cannot be registered"),
    ],
)
def test_one_name_is_one_metric(again: Callable[[Metrics], Any], message: str) -> None:
    metrics = PrometheusMetrics()
    metrics.counter("x_total", "X.", ["a"])
    with pytest.raises(MetricConflict, match=message):
        again(metrics)


def test_histograms_with_other_buckets_conflict() -> None:
    metrics = PrometheusMetrics()
    metrics.histogram("h", "H.", buckets=(1, 2))
    with pytest.raises(MetricConflict, match="3 buckets"):
        metrics.histogram("h", "H.", buckets=(1, 2, 3))


def test_registries_are_separate() -> None:
    one, two = PrometheusMetrics(), PrometheusMetrics()
    one.counter("x_total", "X.").inc()
    two.counter("x_total", "X.")
    assert b"x_total 0.0\n" in two.exposition()


def test_what_grows_with_time_is_counted_before_it_is_read() -> None:
    metrics = PrometheusMetrics()
    seconds = metrics.counter("seconds_total", "Seconds.")
    metrics.before_exposition(lambda: seconds.inc(2))
    assert "seconds_total 2.0" in metrics.exposition().decode()
    assert "seconds_total 4.0" in metrics.exposition().decode()


def test_process_metrics_only_when_asked() -> None:
    assert PrometheusMetrics().exposition() == b""
    assert b"python_info" in PrometheusMetrics(process_metrics=True).exposition()


def test_discarded_metrics_take_everything() -> None:
    metrics: Metrics = DiscardedMetrics()
    metrics.counter("a_total", "A.", ["x"]).labels(x="1").inc()
    gauge = metrics.gauge("b", "B.")
    gauge.set(1)
    gauge.inc()
    gauge.dec()
    metrics.histogram("c", "C.", buckets=(1,)).observe(2)
    assert metrics.exposition() == b""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda metrics: metrics.gauge("h_bucket", "X."),
            "metric h_bucket cannot be registered: it would",
        ),
        (lambda metrics: metrics.counter("h_total", "X."), "metric h_total cannot be registered"),
        (lambda metrics: metrics.counter("x_total", "X.", ["a-b"]), "'a-b' cannot be a label"),
        (lambda metrics: metrics.counter("x_total", "X.", ["__a"]), "'__a' cannot be a label"),
        (lambda metrics: metrics.histogram("x", "X.", ["le"]), "'le' cannot be a label"),
        (lambda metrics: metrics.histogram("x", "X.", buckets=(2, 1)), "do not ascend"),
        (lambda metrics: metrics.histogram("x", "X.", buckets=(1, 1)), "do not ascend"),
    ],
)
def test_what_scrapers_would_not_read(make: Callable[[Metrics], Any], message: str) -> None:
    metrics = PrometheusMetrics()
    metrics.histogram("h", "H.")
    with pytest.raises(MetricConflict, match=message):
        make(metrics)


def test_no_library_is_loaded() -> None:
    script = (
        "import sys; from kube_fairlead.base.metrics import *; m = PrometheusMetrics(process_metrics=True);"
        "m.counter('a', 'b').inc(); m.exposition(); DiscardedMetrics().counter('a', 'b').inc();"
        "assert not {'prometheus_client', 'asyncio', 'logging'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
