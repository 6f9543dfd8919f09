"""The pure decisions: scheduling, termination, sizes of sets."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod, Taint, Toleration
from kube_fairlead_lab.hollow import ANNOTATION_ENDS, ANNOTATION_READY, check_ranges, plan_nodes
from kube_fairlead_lab.hollow.behaviour import Behaviour, behaviour
from kube_fairlead_lab.hollow.node_lifecycle import evicted_at, wanted_taints
from kube_fairlead_lab.hollow.predicates import explain, tolerates, unfit_reason
from kube_fairlead_lab.hollow.runtime import Runtime
from kube_fairlead_lab.hollow.workloads.deployments import next_sizes
from kube_fairlead_lab.hollow.workloads.endpoints import endpoints_of
from kube_fairlead_lab.hollow.workloads.replicasets import to_delete

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def a_pod(*, annotations: dict[str, str] | None = None, uid: str = "u", **spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "n", "uid": uid, "annotations": annotations or {}}
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    return wire.from_dict(Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def a_node(*, labels: dict[str, str] | None = None, ready: str = "True", **spec: Any) -> Node:
    status = {"allocatable": {"pods": "2"}, "conditions": [{"type": "Ready", "status": ready}]}
    metadata = {"name": "node", "labels": labels or {}}
    return wire.from_dict(
        Node, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
    )


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, Behaviour()),
        ({ANNOTATION_ENDS: "at-once", ANNOTATION_READY: "true"}, Behaviour()),
        ({ANNOTATION_ENDS: "1m30s"}, Behaviour(ends_after_seconds=90)),
        ({ANNOTATION_ENDS: "killed"}, Behaviour(ends_after_seconds=None)),
        ({ANNOTATION_ENDS: "never"}, Behaviour(ends_after_seconds=None, dies_when_killed=False)),
        ({ANNOTATION_READY: "false"}, Behaviour(ready_after_seconds=None)),
        ({ANNOTATION_READY: "4s"}, Behaviour(ready_after_seconds=4)),
        ({ANNOTATION_READY: "soon", ANNOTATION_ENDS: "-5s"}, Behaviour()),
    ],
)
def test_behaviour(annotations: dict[str, str], expected: Behaviour) -> None:
    assert behaviour(a_pod(annotations=annotations)) == expected


def test_hooks_and_probes_take_their_time() -> None:
    container = {
        "name": "c",
        "readinessProbe": {"initialDelaySeconds": 7},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    }
    assert behaviour(a_pod(containers=[container], annotations={ANNOTATION_ENDS: "2s"})) == Behaviour(
        ends_after_seconds=5, ready_after_seconds=7
    )


@pytest.mark.parametrize(
    ("pod", "node", "there", "expected"),
    [
        ({}, {}, 0, ""),
        ({}, {"unschedulable": True}, 0, "node(s) were unschedulable"),
        ({"tolerations": [{"operator": "Exists"}]}, {"unschedulable": True}, 0, ""),
        ({"nodeSelector": {"zone": "a"}}, {"labels": {"zone": "a"}}, 0, ""),
        (
            {"nodeSelector": {"zone": "b"}},
            {"labels": {"zone": "a"}},
            0,
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {},
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            0,
            "node(s) had untolerated taint {k: v}",
        ),
        ({}, {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, 0, ""),
        ({}, {}, 2, "Too many pods"),
    ],
)
def test_unfit_reasons(pod: dict[str, Any], node: dict[str, Any], there: int, expected: str) -> None:
    assert unfit_reason(a_pod(**pod), a_node(**node), there) == expected


def test_unfit_reasons_are_summed_up() -> None:
    assert explain(["b", "a", "b"]) == "0/3 nodes are available: 1 a, 2 b."
    assert explain([]) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", value="v", effect="NoSchedule"), False),
        (Toleration(value="v"), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoExecute")) is expected


def test_taints_follow_the_state_and_leave_others_alone() -> None:
    other = {"key": "mine", "effect": "NoSchedule"}
    gone = a_node(ready="Unknown", unschedulable=True, taints=[other])
    tainted = wanted_taints(gone, NOW)
    assert [(taint.key, taint.effect) for taint in tainted] == [
        ("mine", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    back = wire.replace(a_node(taints=[other]), spec=wire.replace(a_node().spec, taints=tainted))
    assert [taint.key for taint in wanted_taints(back, NOW)] == ["mine"]


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0),
        ([{"key": "k", "operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}], 300),
    ],
)
def test_pods_are_evicted_by_taints(tolerations: list[dict[str, Any]], seconds: int | None) -> None:
    taints = [Taint(key="k", effect="NoExecute", time_added=NOW), Taint(key="x", effect="NoSchedule")]
    expected = None if seconds is None else NOW + dt.timedelta(seconds=seconds)
    assert evicted_at(a_pod(tolerations=tolerations), taints) == expected


def test_a_repeated_stop_only_shortens_the_grace_period() -> None:
    changed: list[Pod] = []
    runtime = Runtime("10.0.0.0/24", on_change=changed.append)
    runtime.start(a_pod(annotations={ANNOTATION_ENDS: "killed"}), NOW, host_address="h")
    first = runtime.stop("u", 60, NOW)
    later = runtime.stop("u", 60, NOW + dt.timedelta(seconds=10))
    sooner = runtime.stop("u", 5, NOW + dt.timedelta(seconds=20))
    assert first is not None
    assert later == first
    assert sooner is not None
    assert sooner.ends_at == NOW + dt.timedelta(seconds=25)
    assert sooner.exit_code == 137
    assert len(changed) == 2
    assert not sooner.has_ended(NOW + dt.timedelta(seconds=24))
    assert sooner.has_ended(NOW + dt.timedelta(seconds=25))


def test_addresses_are_given_once_and_again_when_free() -> None:
    runtime = Runtime("10.0.0.0/24")
    given = [runtime.start(a_pod(uid=str(n)), NOW, host_address="h").address for n in range(253)]
    assert len(set(given)) == 253
    runtime.forget("7")
    assert runtime.start(a_pod(uid="new"), NOW, host_address="h").address == given[7]
    assert runtime.start(a_pod(uid="host", hostNetwork=True), NOW, host_address="h").address == "h"


def test_plans_have_distinct_addresses_and_a_limit() -> None:
    plans = plan_nodes(1000)
    assert len({plan.address for plan in plans}) == len({plan.pod_cidr for plan in plans}) == 1000
    assert plan_nodes(1, clouds=[""])[0].provider_id == ""
    waiting, nobodys = plan_nodes(2, clouds=["aws", ""], uninitialized=True)
    assert [taint.key for taint in waiting.taints] == ["node.cloudprovider.kubernetes.io/uninitialized"]
    whereabouts = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"}
    assert not whereabouts & set(waiting.labels), "they are the cloud controller manager's to set"
    assert whereabouts <= set(nobodys.labels)
    with pytest.raises(ValueError, match="there are addresses for 16384 hollow nodes"):
        plan_nodes(20000)


def test_ranges_are_not_shared_with_another_process() -> None:
    plans = plan_nodes(3, prefix="b-")
    check_ranges(plans, {plan.pod_cidr: plan.name for plan in plans})
    others = {plan.pod_cidr: plan.name for plan in plan_nodes(2, prefix="a-")}
    with pytest.raises(ValueError, match=r"node a-0 already has the pod range 10.64.0.0/24 of b-0: .* --first=2$"):
        check_ranges(plans, {**others, "192.168.7.0/24": "real", "fd00::/64": "real"})
    check_ranges(plan_nodes(3, prefix="b-", first=2), others)


@given(
    wanted=st.integers(0, 20),
    current=st.integers(0, 20),
    olds=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=3),
    ready=st.integers(0, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
)
def test_a_rollout_keeps_within_its_limits(
    wanted: int, current: int, olds: list[tuple[int, int]], ready: int, surge: int, unavailable: int
) -> None:
    before = {str(number): old for number, old in enumerate(olds)}
    new, sizes = next_sizes(wanted, current, before, ready, surge, unavailable)
    total = current + sum(size for size, _ in olds)
    assert new <= wanted
    assert new + sum(size for size, _ in olds) <= max(total, wanted + surge)
    assert all(0 <= sizes[name] <= size for name, (size, _) in before.items())
    able = min(ready, current) + sum(min(size, old_ready) for size, old_ready in olds)
    left = min(ready, current) + sum(min(sizes[name], old_ready) for name, (_, old_ready) in before.items())
    assert left >= min(able, wanted - unavailable)


def test_the_least_useful_pods_are_deleted_first() -> None:
    placed, waiting = a_pod(uid="1", nodeName="n"), a_pod(uid="2")
    assert to_delete([placed, waiting], 1) == [waiting]
    assert to_delete([placed, waiting], -3) == []


def test_endpoints_distinguish_serving_and_ready() -> None:
    status = {"podIP": "10.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
    pod = wire.from_dict(Pod, wire.to_dict(a_pod(nodeName="n")) | {"status": status})
    going = wire.replace_metadata(pod, deletion_timestamp=NOW)
    [one], [other] = endpoints_of([pod], {"n": "z"}), endpoints_of([going], {})
    assert (one["conditions"], one["zone"]) == ({"ready": True, "serving": True, "terminating": False}, "z")
    assert other["conditions"] == {"ready": False, "serving": True, "terminating": True}
