from __future__ import annotations

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead_apiserver.observability.series import CounterSeries, Family, HistogramSeries

BOUNDS = (0.005, 1, 2.5)


def test_a_counter_by_labels() -> None:
    family = Family("asked_total", "counter", "How often.", ("who", "what"), CounterSeries)
    family.series("a", "x").value += 2
    family.series("a", "x").value += 1
    family.series("b", 'y"\\\n').value += 1
    (parsed,) = text_string_to_metric_families(family.exposition())
    assert (parsed.name, parsed.type, parsed.documentation) == ("asked", "counter", "How often.")
    assert [(sample.labels, sample.value) for sample in parsed.samples] == [
        ({"who": "a", "what": "x"}, 3),
        ({"who": "b", "what": 'y"\\\n'}, 1),
    ]


@pytest.mark.parametrize("labels", [(), ("verb",)])
def test_a_histogram_reads_as_the_library_writes_it(labels: tuple[str, ...]) -> None:
    values = [0.001, 0.005, 0.2, 1, 7.5]
    family = Family("took_seconds", "histogram", "How long.", labels, lambda: HistogramSeries(BOUNDS))
    registry = prometheus_client.CollectorRegistry()
    model = prometheus_client.Histogram("took_seconds", "How long.", labels, registry=registry, buckets=BOUNDS)
    for value in values:
        family.series(*("GET" for _ in labels)).observe(value)
        (model.labels("GET") if labels else model).observe(value)
    ours, theirs = (
        [
            (sample.name, sample.labels, sample.value)
            for parsed in text_string_to_metric_families(text)
            for sample in parsed.samples
            if not sample.name.endswith("_created")
        ]
        for text in (family.exposition(), prometheus_client.generate_latest(registry).decode())
    )
    assert ours == theirs


def test_without_series_there_is_only_the_head() -> None:
    family = Family("asked_total", "counter", "How often.", ("who",), CounterSeries)
    assert family.exposition() == "# HELP asked_total How often.\n# TYPE asked_total counter\n"
