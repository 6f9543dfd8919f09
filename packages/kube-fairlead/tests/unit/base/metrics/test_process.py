"""What the library of Prometheus exposes of a process, ours does under the same names."""

from __future__ import annotations

import gc
import os
import sys
import time

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead.base.metrics import MetricConflict, PrometheusMetrics


def exposed(text: str) -> dict[tuple[str, str, str, str], float]:
    return {
        (family.type, family.documentation, sample.name, str(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.skipif(sys.platform != "linux", reason="process metrics are read from /proc")
def test_the_same_names_texts_and_labels() -> None:
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    prometheus_client.PlatformCollector(registry=registry)
    prometheus_client.GCCollector(registry=registry)
    theirs = exposed(prometheus_client.generate_latest(registry).decode())
    ours = exposed(PrometheusMetrics(process_metrics=True).exposition().decode())
    assert list(ours) == list(theirs)
    for key, value in ours.items():
        if key[2] in {"process_start_time_seconds", "process_max_fds", "python_info"}:
            assert value == theirs[key], key


@pytest.mark.skipif(sys.platform != "linux", reason="process metrics are read from /proc")
def test_they_tell_of_this_process() -> None:
    metrics = PrometheusMetrics(process_metrics=True)
    values = {key[2]: value for key, value in exposed(metrics.exposition().decode()).items()}
    assert 5e6 < values["process_resident_memory_bytes"] < values["process_virtual_memory_bytes"]
    assert 0 < time.time() - values["process_start_time_seconds"] < 24 * 3600
    times = os.times()
    assert values["process_cpu_seconds_total"] <= times.user + times.system + 0.02
    reader, writer = os.pipe()
    more = {key[2]: value for key, value in exposed(metrics.exposition().decode()).items()}
    assert more["process_open_fds"] == values["process_open_fds"] + 2
    os.close(reader)
    os.close(writer)


def test_garbage_is_counted() -> None:
    def collections() -> float:
        text = PrometheusMetrics(process_metrics=True).exposition().decode()
        (line,) = [one for one in text.splitlines() if one.startswith('python_gc_collections_total{generation="2"}')]
        return float(line.rpartition(" ")[2])

    before = collections()
    gc.collect()
    assert collections() == before + 1


def test_its_names_are_taken() -> None:
    with pytest.raises(MetricConflict, match="is a metric of the process"):
        PrometheusMetrics(process_metrics=True).gauge("process_open_fds", "Mine.")
    PrometheusMetrics().gauge("process_open_fds", "Mine.")
