from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Service, Taint
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.decisions.services import (
    ServiceStep,
    balanced_nodes,
    changes_targets,
    needs_update,
    same_targets,
    service_step,
)
from tests.unit.cloud.world import UNINITIALIZED, node

PLATFORMS = frozenset({"aws"})
OURS = {wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER: "aws"}
THEIRS = {wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER: "hcloud"}


def service(spec: dict[str, Any] | None = None, **metadata: Any) -> Service:
    return wire.from_dict(
        Service,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "d", "uid": "1", **metadata},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], **(spec or {})},
        },
    )


HELD: dict[str, Any] = {"finalizers": [wellknown.FINALIZER_LOAD_BALANCER]}
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", **HELD}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (service(), ServiceStep.ENSURE),
        (service({"loadBalancerClass": "x.com/y"}), ServiceStep.LEAVE_ALONE),
        (service({"type": "NodePort"}), ServiceStep.LEAVE_ALONE),
        (service({"type": "NodePort"}, annotations=OURS, **HELD), ServiceStep.REMOVE),
        (service({"type": "NodePort"}, **HELD), ServiceStep.ASK_CLOUD),  # held, but by whom?
        (service(**HELD), ServiceStep.ENSURE),
        (service(annotations=OURS, **GOING), ServiceStep.REMOVE),
        (service(**GOING), ServiceStep.ASK_CLOUD),
        (service(annotations=OURS), ServiceStep.ENSURE),
        (service(annotations=THEIRS), ServiceStep.LEAVE_ALONE),
        (service(annotations=THEIRS, **GOING), ServiceStep.LEAVE_ALONE),
    ],
)
def test_steps(made: Service, expected: ServiceStep) -> None:
    assert service_step(made, manager="aws", platforms=PLATFORMS) is expected


def test_a_single_cloud_looks_after_all_of_them() -> None:
    assert service_step(service(annotations=THEIRS), manager="aws", platforms=()) is ServiceStep.ENSURE
    assert service_step(service(**GOING), manager="aws", platforms=()) is ServiceStep.REMOVE


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (service(), False),
        (service(annotations=OURS), False),  # our own note
        (service(annotations={"x": "y"}), True),
        (service(uid="2"), True),
        (service({"type": "NodePort"}), True),
        (service({"ports": [{"port": 81, "protocol": "TCP"}]}), True),
        (service({"ports": [{"port": 80, "protocol": "TCP", "appProtocol": "http"}]}), True),
        (service({"sessionAffinity": "ClientIP"}), True),
        (service({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}), True),
        (service({"loadBalancerIP": "192.0.2.1"}), True),
        (service({"loadBalancerSourceRanges": ["192.0.2.0/24"]}), True),
        (service({"externalIPs": ["192.0.2.1"]}), True),
        (service({"externalTrafficPolicy": "Local"}), True),
        (service({"healthCheckNodePort": 31000}), True),
        (service({"ipFamilies": ["IPv4", "IPv6"]}), True),
        (service({"selector": {"app": "x"}}), False),
        (service(labels={"x": "y"}), False),
    ],
)
def test_which_changes_concern_the_load_balancer(new: Service, expected: bool) -> None:
    assert needs_update(service(), new) is expected


def test_a_service_that_never_wanted_one_needs_no_update() -> None:
    assert not needs_update(service({"type": "ClusterIP"}), service({"type": "ClusterIP"}, annotations={"x": "y"}))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (node("n", "aws://1"), True),
        (node("n", "aws://1", ready="False"), True),
        (node("n", "aws://1", taints=[UNINITIALIZED]), True),
        (node("n", platform="aws"), False),  # a claim, and no proof
        (node("n", "gce://1"), False),
        (node("n"), False),
        (node("n", "aws:/1"), False),
        (node("n", "aws://1", labels={wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: ""}), False),
        (node("n", "aws://1", labels={wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: "true"}), False),
        (node("n", "aws://1", labels={wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: "odd"}), False),
        (node("n", "aws://1", labels={wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: "False"}), True),
        (node("n", "aws://1", taints=[Taint(key=wellknown.TAINT_TO_BE_DELETED, effect="NoSchedule")]), False),
    ],
)
def test_which_nodes_are_targets(made: Any, expected: bool) -> None:
    assert bool(balanced_nodes([made], PLATFORMS, bool)) is expected
    assert balanced_nodes([made], PLATFORMS, lambda _node: False) == []


def test_which_changes_of_nodes_count() -> None:
    one = node("n", "aws://1")
    assert not changes_targets(one, node("n", "aws://1", ready="False"), PLATFORMS)
    assert changes_targets(node("n"), one, PLATFORMS)
    assert not changes_targets(node("n"), node("n", platform="aws"), PLATFORMS)
    assert not changes_targets(node("n"), node("n", platform="aws"), ())
    excluded = node("n", "aws://1", labels={wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: ""})
    assert changes_targets(one, excluded, PLATFORMS)
    assert same_targets([one], [node("n", "aws://1", ready="False")])
    assert not same_targets([one], [node("n", "aws://2")])
    assert not same_targets([one], [])
