"""What kubelets write into the status of nodes and pods. Pure: patches as plain JSON.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodestatus/setters.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/status/generate.go
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.core_v1 import Container, Node, NodeCondition, Pod, PodPhase
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_lab.hollow.runtime import Sandbox

__all__ = ["CONTAINER_RUNTIME", "KUBELET_VERSION", "ended", "node_conditions", "running"]


KUBELET_VERSION = "v1.36.4-hollow"
CONTAINER_RUNTIME = "hollow://1"

_GOOD_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_conditions(node: Node | None, now: dt.datetime, *, not_ready: str = "") -> tuple[NodeCondition, ...]:
    """Return the conditions of a healthy kubelet, or of one that is not ready."""
    ready = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    if not_ready:
        ready = ("Ready", "False", "KubeletNotReady", not_ready)
    found = []
    for type_, status, reason, message in (*_GOOD_CONDITIONS, ready):
        before = None if node is None else node.condition(type_)
        since = before.last_transition_time if before is not None and before.status == status else now
        found.append(
            NodeCondition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=now,
                last_transition_time=since,
            )
        )
    return tuple(found)


def running(pod: Pod, sandbox: Sandbox, now: dt.datetime, *, host_address: str, is_ready: bool) -> Json:
    """Return the status of a pod whose containers run."""
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    passed = all((found := pod.condition(gate)) is not None and found.status == "True" for gate in gates)
    conditions = [
        _condition(pod, now, "PodReadyToStartContainers", holds=True),
        _condition(pod, now, "Initialized", holds=True),
        _condition(pod, now, "Ready", holds=is_ready and passed, reason=_why_not_ready(is_ready, passed)),
        _condition(pod, now, "ContainersReady", holds=is_ready, reason="" if is_ready else "ContainersNotReady"),
    ]
    state = {"running": {"startedAt": format_time(sandbox.started)}}
    return {
        "phase": PodPhase.RUNNING.value,
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "podIP": sandbox.address,
        "podIPs": [{"ip": sandbox.address}],
        "startTime": format_time(pod.status.start_time or sandbox.started),
        "conditions": conditions,
        "containerStatuses": [_container(one, sandbox, state, is_ready=is_ready) for one in pod.spec.containers],
    }


def ended(pod: Pod, sandbox: Sandbox, now: dt.datetime) -> Json:
    """Return the status of a pod whose containers have ended for good."""
    succeeded = sandbox.exit_code == 0
    reason = "PodCompleted" if succeeded else "PodFailed"
    state = {
        "terminated": {
            "exitCode": sandbox.exit_code,
            "reason": "Completed" if succeeded else "Error",
            "startedAt": format_time(sandbox.started),
            "finishedAt": format_time(sandbox.ends_at or now),
        }
    }
    return {
        "phase": (PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED).value,
        "conditions": [
            _condition(pod, now, "PodReadyToStartContainers", holds=False),
            _condition(pod, now, "Initialized", holds=True, reason=reason if succeeded else ""),
            _condition(pod, now, "Ready", holds=False, reason=reason),
            _condition(pod, now, "ContainersReady", holds=False, reason=reason),
        ],
        "containerStatuses": [_container(one, sandbox, state, is_ready=False) for one in pod.spec.containers],
    }


def _why_not_ready(is_ready: bool, passed: bool) -> str:  # noqa: FBT001 - two facts with names at the call
    if not is_ready:
        return "ContainersNotReady"
    return "" if passed else "ReadinessGatesNotReady"


def _condition(pod: Pod, now: dt.datetime, type_: str, *, holds: bool, reason: str = "") -> Json:
    status = "True" if holds else "False"
    before = pod.condition(type_)
    since = before.last_transition_time if before is not None and before.status == status else None
    # An old reason must be removed explicitly; a patch without it would keep it.
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": format_time(since or now),
        "reason": reason or None,
    }


def _container(container: Container, sandbox: Sandbox, state: Json, *, is_ready: bool) -> Json:
    kind = next(iter(state))
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow/{container.image}",
        "containerID": f"hollow://{sandbox.pod.uid}-{container.name}-{sandbox.restarts}",
        "ready": is_ready,
        "started": kind == "running",
        "restartCount": sandbox.restarts,
        # The other states are removed: exactly one of three fields may be set.
        "state": {"waiting": None, "running": None, "terminated": None} | state,
    }
