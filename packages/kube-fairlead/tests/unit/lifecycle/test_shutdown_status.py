from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod, Taint
from kube_fairlead.lifecycle import shutdown_status
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

NOW = dt.datetime(2026, 3, 1, 12, 0, 0, 500000, tzinfo=dt.UTC)
MESSAGE = "Pod was terminated in response to imminent node shutdown."


def a_pod(phase: str = "Running", **metadata: object) -> Pod:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z"}
    container = {"name": "c", "ready": True, "state": {"running": {"startedAt": "2026-03-01T11:00:00Z"}}}
    return wire.from_dict(
        Pod,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u", **metadata},
            "status": {"phase": phase, "conditions": [ready], "containerStatuses": [container]},
        },
    )


def conditions(status: object) -> dict[str, tuple[str, str, str]]:
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions}  # type: ignore[attr-defined]  # a PodStatus


def test_a_pod_is_a_target_and_not_ready_before_its_containers_stop() -> None:
    pod = a_pod()
    assert not shutdown_status.is_announced(pod)
    status = shutdown_status.announced(pod, NOW)
    assert conditions(status) == {
        "DisruptionTarget": ("True", "TerminationByKubelet", MESSAGE),
        "Ready": ("False", "NodeShutdown", "node is shutting down"),
    }
    assert status.phase == "Running"
    assert status.container_statuses == pod.status.container_statuses
    again = wire.replace(pod, status=status)
    assert shutdown_status.is_announced(again)
    assert shutdown_status.announced(again, NOW + dt.timedelta(minutes=1)) == status


@pytest.mark.parametrize(
    ("exit_code", "phase", "reason", "message", "why"),
    [
        (0, "Succeeded", "", "", "PodCompleted"),
        (1, "Failed", "Terminated", MESSAGE, "PodFailed"),
        (137, "Failed", "Terminated", MESSAGE, "PodFailed"),
    ],
)
def test_the_last_status_is_the_kubelets(exit_code: int, phase: str, reason: str, message: str, why: str) -> None:
    status = shutdown_status.ended(a_pod(), {"c": ContainerEnd(exit_code, NOW)}, NOW)
    assert (status.phase, status.reason, status.message) == (phase, reason, message)
    assert conditions(status)["Ready"] == ("False", why, "")
    assert conditions(status)["ContainersReady"] == ("False", why, "")
    assert conditions(status)["DisruptionTarget"] == ("True", "TerminationByKubelet", MESSAGE)
    terminated = status.container_statuses[0].state.terminated
    assert terminated is not None
    assert (terminated.exit_code, terminated.reason) == (exit_code, "Completed" if exit_code == 0 else "Error")
    assert terminated.finished_at == NOW.replace(microsecond=0)
    assert terminated.started_at is not None
    assert not status.container_statuses[0].ready


@pytest.mark.parametrize(
    ("target", "ready", "expected"),
    [
        ("True", None, True),
        ("True", "False", True),
        ("True", "True", False),
        ("False", "False", False),
        (None, "False", False),
    ],
)
def test_what_counts_as_announced(target: str | None, ready: str | None, expected: bool) -> None:
    told = {"DisruptionTarget": target, "Ready": ready}
    conditions = [{"type": kind, "status": status} for kind, status in told.items() if status is not None]
    pod = wire.from_dict(Pod, {"metadata": {"name": "p"}, "status": {"conditions": conditions}})
    assert shutdown_status.is_announced(pod) is expected


def test_a_container_that_had_ended_before_is_left_as_it_was() -> None:
    container = {"name": "c", "ready": True, "started": True, "state": {"terminated": {"exitCode": 3}}}
    pod = wire.from_dict(Pod, {"metadata": {"name": "p"}, "status": {"containerStatuses": [container]}})
    before = pod.status.container_statuses[0]
    (after,) = shutdown_status.ended(pod, {"c": ContainerEnd(0, NOW)}, NOW).container_statuses
    assert after == wire.replace(before, ready=False)
    (running,) = shutdown_status.ended(a_pod(), {"c": ContainerEnd(0, NOW)}, NOW).container_statuses
    assert running.started is False


@pytest.mark.parametrize(("annotations", "expected"), [({"kubernetes.io/config.mirror": "x"}, True), ({}, False)])
def test_a_mirror_is_a_static_pods(annotations: dict[str, str], expected: bool) -> None:
    assert shutdown_status.is_static(a_pod(annotations=annotations)) is expected


def test_an_unobserved_container_is_reported_as_unknown() -> None:
    status = shutdown_status.ended(a_pod(), {}, NOW)
    terminated = status.container_statuses[0].state.terminated
    assert terminated is not None
    assert (terminated.exit_code, terminated.reason) == (137, "ContainerStatusUnknown")


def test_a_pod_that_has_failed_before_does_not_succeed_now() -> None:
    assert shutdown_status.ended(a_pod("Failed"), {"c": ContainerEnd(0, NOW)}, NOW).phase == "Failed"


def test_a_late_pod_is_rejected_with_the_kubelets_message() -> None:
    status = shutdown_status.rejected(a_pod("Pending"))
    assert (status.phase, status.reason) == ("Failed", "NodeShutdown")
    assert status.message == "Pod was rejected as the node is shutting down."


@pytest.mark.parametrize(
    ("kind", "moves"),
    [("ReplicaSet", True), ("StatefulSet", True), ("Job", True), ("DaemonSet", False), ("Node", False)],
)
def test_whose_replacement_comes_up_elsewhere(kind: str, moves: bool) -> None:
    owner = {"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": True}
    assert shutdown_status.is_replaced_elsewhere(a_pod(ownerReferences=[owner])) is moves
    assert not shutdown_status.is_replaced_elsewhere(a_pod())


def test_our_taint_is_there_once_and_goes_alone() -> None:
    other = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
    node = wire.from_dict(
        Node,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "spec": {"taints": [wire.to_dict(other), wire.to_dict(shutdown_status.TAINT)]},
        },
    )
    assert shutdown_status.taints_with_ours(node) == (other, shutdown_status.TAINT)
    assert shutdown_status.taints_without_ours(node.spec.taints) == (other,)
