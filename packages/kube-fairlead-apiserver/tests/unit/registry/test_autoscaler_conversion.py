"""v2 through v1 and back is the same autoscaler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.registry.autoscaler_conversion import AUTOSCALER_CONVERSION
from kube_fairlead_apiserver.schema.defaulting import copy_json

Json = dict[str, Any]

NAMES = st.sampled_from(["cpu", "memory", "<q>"])
AMOUNTS = st.sampled_from(["1", "500m", "2Gi"])
PERCENTS = st.integers(1, 100)
SELECTORS = st.sampled_from([{}, {"selector": {"matchLabels": {"a": "b"}}}])
AVERAGE = AMOUNTS.map(lambda amount: {"type": "AverageValue", "averageValue": amount})
VALUE = AMOUNTS.map(lambda amount: {"type": "Value", "value": amount})
SHARE = PERCENTS.map(lambda percent: {"type": "Utilization", "averageUtilization": percent})
METRIC = st.builds(lambda name, selector: {"name": name, **selector}, NAMES, SELECTORS)
SERVICE = st.sampled_from([{"kind": "Service", "name": "s"}, {"apiVersion": "v1", "kind": "Service", "name": "s"}])


def measure(kind: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(parts).map(lambda source: {"type": kind[0].upper() + kind[1:], kind: source})


CPU = measure("resource", name=st.just("cpu"), target=SHARE)
# All but a share of processor time, of which v1 has room for one.
OTHERS = st.one_of(
    measure("resource", name=st.just("memory"), target=AVERAGE | SHARE),
    measure("resource", name=st.just("cpu"), target=AVERAGE),
    measure("containerResource", name=NAMES, container=st.just("c"), target=AVERAGE | SHARE),
    measure("pods", metric=METRIC, target=AVERAGE),
    measure("object", describedObject=SERVICE, metric=METRIC, target=AVERAGE | VALUE),
    measure("external", metric=METRIC, target=AVERAGE | VALUE),
)
METRICS = st.one_of(
    CPU.map(lambda cpu: [cpu]),
    st.lists(OTHERS, min_size=1, max_size=4),
    st.tuples(st.lists(OTHERS, max_size=3), CPU).map(lambda both: [*both[0], both[1]]),
)
POLICIES = st.lists(st.sampled_from([{"type": "Pods", "value": 4, "periodSeconds": 15}]), min_size=1, max_size=2)
RULES = st.fixed_dictionaries(
    {"policies": POLICIES},
    optional={"stabilizationWindowSeconds": st.integers(0, 9), "selectPolicy": st.just("Max"), "tolerance": AMOUNTS},
)
BEHAVIOR = st.fixed_dictionaries({}, optional={"scaleUp": RULES, "scaleDown": RULES}).filter(bool)
SPECS = st.fixed_dictionaries(
    {"scaleTargetRef": SERVICE, "minReplicas": st.integers(1, 3), "maxReplicas": st.integers(3, 9), "metrics": METRICS},
    optional={"behavior": BEHAVIOR},
)
CONDITIONS = st.lists(
    st.just({"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}),
    min_size=1,
    max_size=2,
)
STATUSES = st.fixed_dictionaries(
    {
        "desiredReplicas": st.integers(0, 9),
        "currentMetrics": st.none()
        | st.lists(
            measure("pods", metric=METRIC, current=AMOUNTS.map(lambda amount: {"averageValue": amount})),
            min_size=1,
            max_size=2,
        ),
    },
    optional={"currentReplicas": st.integers(1, 9), "observedGeneration": st.integers(1, 9), "conditions": CONDITIONS},
)


@given(SPECS, STATUSES, st.sampled_from([{}, {"annotations": {"own": "x"}}]))
def test_nothing_is_lost_on_the_way(spec: Json, status: Json, metadata: Json) -> None:
    stored = {"metadata": {"name": "a", **metadata}, "spec": spec, "status": status}
    obj = copy_json(stored)
    AUTOSCALER_CONVERSION.to_served(obj)
    assert obj["spec"].keys() <= {"scaleTargetRef", "minReplicas", "maxReplicas", "targetCPUUtilizationPercentage"}
    AUTOSCALER_CONVERSION.to_stored(obj)
    assert obj == stored


@pytest.mark.parametrize(
    "text",
    ["", "x", "5", "{}", "[5]", "[[]]", '[{"type": 5}]', '[{"type": "Pods", "status": 7, "pods": 5}]', "[" * 10_000],
)
@pytest.mark.parametrize("name", ["metrics", "behavior", "current-metrics", "conditions"])
def test_what_cannot_be_read_says_nothing(name: str, text: str) -> None:
    annotations = {f"autoscaling.alpha.kubernetes.io/{name}": text}
    obj: Json = {"metadata": {"name": "a", "annotations": annotations}, "spec": {"maxReplicas": 1}}
    AUTOSCALER_CONVERSION.to_stored(obj)
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    assert obj == {
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 1, "metrics": [{"type": "Resource", "resource": cpu}]},
        "status": {"currentMetrics": None, "desiredReplicas": 0},
    }
