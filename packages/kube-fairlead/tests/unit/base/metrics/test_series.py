"""What is exposed, held against the library of Prometheus: its parser reads it as it reads what the library writes."""

from __future__ import annotations

import math
import threading
from typing import Any

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.metrics.series import CounterFamily, GaugeFamily, HistogramFamily

BOUNDS = (0.005, 1, 2.5)
Samples = list[tuple[str, dict[str, str], float]]


def read(text: str) -> Samples:
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


def test_a_counter_by_labels() -> None:
    family = CounterFamily("asked_total", "How often.", ("who", "what"))
    family.labels("a", "x").inc(2)
    family.labels("a", "x").inc()
    family.labels(what='y"\\\n', who="b").inc()
    (parsed,) = text_string_to_metric_families(family.exposition())
    assert (parsed.name, parsed.type, parsed.documentation) == ("asked", "counter", "How often.")
    assert [(sample.labels, sample.value) for sample in parsed.samples] == [
        ({"who": "a", "what": "x"}, 3),
        ({"who": "b", "what": 'y"\\\n'}, 1),
    ]


@pytest.mark.parametrize("labels", [(), ("verb",)])
def test_a_histogram_reads_as_the_library_writes_it(labels: tuple[str, ...]) -> None:
    family = HistogramFamily("took_seconds", "How long.", labels, BOUNDS)
    registry = prometheus_client.CollectorRegistry()
    model = prometheus_client.Histogram("took_seconds", "How long.", labels, registry=registry, buckets=BOUNDS)
    for value in [0.001, 0.005, 0.2, 1, 7.5]:
        (family.labels("GET") if labels else family).observe(value)
        (model.labels("GET") if labels else model).observe(value)
    assert read(family.exposition()) == read(prometheus_client.generate_latest(registry).decode())


def test_without_series_there_is_only_the_head() -> None:
    family = CounterFamily("asked_total", "How often.", ("who",))
    assert family.exposition() == "# HELP asked_total How often.\n# TYPE asked_total counter\n"


# A carriage return would be the end of a line to the parser, though not to the format.
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from('\n"\\{},= #'), max_size=12
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["inc", "dec", "set", "observe"]), WORDS, WORDS, st.floats(0, 1e9)),
    max_size=25,
)


@given(STEPS, WORDS)
def test_whatever_is_counted_reads_as_the_library_writes_it(
    steps: list[tuple[str, str, str, float]], text: str
) -> None:
    ours, registry = PrometheusMetrics(), prometheus_client.CollectorRegistry()
    labels = ("z", "a")
    theirs: dict[str, Any] = {
        "inc": prometheus_client.Counter("c_total", text, labels, registry=registry),
        "dec": prometheus_client.Gauge("g", text, labels, registry=registry),
        "observe": prometheus_client.Histogram("h", text, labels, registry=registry, buckets=(1, 10, 1e5)),
    }
    counter, gauge = ours.counter("c_total", text, labels), ours.gauge("g", text, labels)
    histogram = ours.histogram("h", text, labels, buckets=(1, 10, 1e5))
    for verb, one, other, value in steps:
        match verb:
            case "inc":
                counter.labels(one, other).inc(value)
            case "dec":
                gauge.labels(a=other, z=one).dec(value)
            case "set":
                gauge.labels(one, other).set(value)
            case _:
                histogram.labels(one, other).observe(value)
        getattr(theirs["dec" if verb == "set" else verb].labels(one, other), verb)(value)
    assert read(ours.exposition().decode()) == read(prometheus_client.generate_latest(registry).decode())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.1, 1e300, -5])
def test_every_number_is_read_again(value: float) -> None:
    family = GaugeFamily("g", "G.", ())
    family.set(value)
    ((_, _, read_again),) = read(family.exposition())
    assert read_again == value or math.isnan(value) is math.isnan(read_again) is True


def test_threads_lose_nothing() -> None:
    metrics = PrometheusMetrics()
    counter, histogram = metrics.counter("c_total", "C.", ["x"]), metrics.histogram("h", "H.", buckets=(1,))
    begin = threading.Barrier(4)

    def count() -> None:
        begin.wait()
        for number in range(20_000):
            counter.labels(str(number % 7)).inc()
            histogram.observe(2)
            if number % 5000 == 0:
                metrics.exposition()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    samples = read(metrics.exposition().decode())
    assert sum(value for name, _, value in samples if name == "c_total") == 80_000
    assert ("h_sum", {}, 160_000) in samples


@pytest.mark.parametrize(
    ("values", "labels"),
    [((), {}), (("a",), {}), (("a", "b", "c"), {}), ((), {"x": "a"}), ((), {"x": "a", "z": "b"}), (("a",), {"y": "b"})],
)
def test_labels_that_are_not_its_own(values: tuple[str, ...], labels: dict[str, str]) -> None:
    family = CounterFamily("c_total", "C.", ("x", "y"))
    with pytest.raises(ValueError, match=r"metric c_total has labels \(x, y\), got"):
        family.labels(*values, **labels)
    with pytest.raises(ValueError, match="got"):
        family.inc()


def test_a_counter_only_goes_up() -> None:
    with pytest.raises(ValueError, match="only goes up"):
        CounterFamily("c_total", "C.", ()).inc(-1)


def test_a_series_has_its_labels() -> None:
    with pytest.raises(ValueError, match="has its labels"):
        CounterFamily("c_total", "C.", ("x",)).labels("a").labels("b")


def test_a_gauge_forgets() -> None:
    family = GaugeFamily("g", "G.", ("x",))
    family.labels("a").set(1)
    family.clear()
    assert read(family.exposition()) == []
    alone = GaugeFamily("g", "G.", ())
    alone.set(1)
    alone.clear()
    assert read(alone.exposition()) == [("g", {}, 0)]


def same(ours: Samples, theirs: Samples) -> bool:
    """Equal, and what is not a number equals itself."""
    return repr(ours) == repr(theirs)


BOUND = st.floats(-1e3, 1e3) | st.just(-math.inf)
VALUE = st.floats() | st.sampled_from([math.inf, -math.inf, math.nan, -0.0])


@given(st.sets(BOUND, min_size=1, max_size=5), st.booleans(), st.lists(VALUE, max_size=12))
def test_any_bounds_and_any_values_read_as_the_library_writes_them(
    bounds: set[float], names_the_last: bool, values: list[float]
) -> None:
    """The library adds to its sum what is not a number, and never has a sum again; it is given none."""
    buckets = [*sorted(bounds), *([math.inf] if names_the_last else [])]
    ours, registry = PrometheusMetrics(), prometheus_client.CollectorRegistry()
    histogram, gauge = ours.histogram("h", "H.", buckets=buckets), ours.gauge("g", "G.")
    model = prometheus_client.Histogram("h", "H.", registry=registry, buckets=buckets)
    model_gauge = prometheus_client.Gauge("g", "G.", registry=registry)
    for value in values:
        histogram.observe(value)
        gauge.set(value)
        model_gauge.set(value)
        if not math.isnan(value):
            model.observe(value)
    text = ours.exposition().decode()
    # The library has no sum where a bound is negative, because the sum can decrease then. Go's has one.
    shown = [sample for sample in read(text) if min(bounds) >= 0 or sample[0] != "h_sum"]
    assert same(shown, read(prometheus_client.generate_latest(registry).decode()))
    assert text.count('le="+Inf"') == 1
    assert len([line for line in text.splitlines() if "_bucket" in line]) == len(bounds) + 1


def test_the_last_bucket_is_the_same_whether_it_is_named_or_not() -> None:
    metrics = PrometheusMetrics()
    metrics.histogram("h", "H.", buckets=(1, math.inf)).observe(0.5)
    metrics.histogram("h", "H.", buckets=(1,)).observe(0.5)
    assert ("h_count", {}, 2.0) in read(metrics.exposition().decode())


def test_bounds_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        PrometheusMetrics().histogram("h", "H.", buckets=(1, math.nan))


def test_a_counter_stays_a_number() -> None:
    family = CounterFamily("c_total", "C.", ())
    with pytest.raises(ValueError, match="cannot be changed by nan"):
        family.inc(math.nan)
    assert read(family.exposition()) == [("c_total", {}, 0.0)]


class Slow(float):
    """A number which, while it is added, lets another thread run to its end, or to a lock."""

    meanwhile: threading.Thread

    def __radd__(self, other: float) -> float:
        self.meanwhile.start()
        self.meanwhile.join(0.2)
        return other + 1.0


@pytest.mark.parametrize("change", ["set", "clear"])
def test_what_is_set_while_another_thread_counts_is_not_lost(change: str) -> None:
    family = GaugeFamily("g", "G.", ("x",))
    series = family.labels("a")
    series.set(7)
    amount = Slow(1)
    amount.meanwhile = threading.Thread(target=lambda: series.set(5) if change == "set" else series.clear())
    series.inc(amount)
    amount.meanwhile.join()
    assert read(family.exposition()) == [("g", {"x": "a"}, 5.0 if change == "set" else 0.0)]


def test_a_reading_is_not_in_the_middle_of_a_change() -> None:
    family = GaugeFamily("g", "G.", ())
    texts: list[str] = []
    amount = Slow(1)
    amount.meanwhile = threading.Thread(target=lambda: texts.append(family.exposition()))
    family.inc(amount)
    amount.meanwhile.join()
    assert [value for text in texts for _, _, value in read(text)] == [1.0]


def test_series_that_are_made_while_all_are_forgotten_are_there_or_forgotten() -> None:
    metrics = PrometheusMetrics()
    gauge = metrics.gauge("g", "G.", ["x"])
    begin = threading.Barrier(3)
    ended = threading.Event()

    def forget() -> None:
        begin.wait()
        while not ended.is_set():
            gauge.clear()

    def scrape() -> None:
        begin.wait()
        while not ended.is_set():
            for _, labels, value in read(metrics.exposition().decode()):
                assert float(labels["x"]) == value or value == 0

    threads = [threading.Thread(target=forget), threading.Thread(target=scrape)]
    for thread in threads:
        thread.start()
    begin.wait()
    for number in range(20_000):
        gauge.labels(str(number % 50)).set(number % 50)
    ended.set()
    for thread in threads:
        thread.join()
    gauge.clear()
    gauge.labels("last").set(1)
    assert read(metrics.exposition().decode()) == [("g", {"x": "last"}, 1.0)]
