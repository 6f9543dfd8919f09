"""What a shutdown writes on pods and on the node: the texts of the kubelet, for the clients that read those.

A pod gets two writes. Before its containers are stopped it becomes a disruption target and not ready, so that its
endpoints are removed first (kubernetes#116965). When they have ended, it gets the last status of the kubelet.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Node,
    Pod,
    PodCondition,
    PodPhase,
    PodStatus,
    Taint,
    TaintEffect,
)
from kube_fairlead.api.meta import ConditionStatus
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.lifecycle import conditions, deadlines

__all__ = [
    "CONDITION_DISRUPTION_TARGET",
    "NODE_NOT_READY",
    "POD_REASON",
    "REJECTED_MESSAGE",
    "REJECTED_REASON",
    "TAINT",
    "ContainerEnd",
    "announced",
    "ended",
    "is_announced",
    "is_replaced_elsewhere",
    "is_static",
    "next_state",
    "node_conditions",
    "rejected",
    "runs_since",
    "taints_with_ours",
    "taints_without_ours",
]

POD_REASON: Final = "Terminated"
_POD_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
REJECTED_REASON: Final = "NodeShutdown"
REJECTED_MESSAGE: Final = "Pod was rejected as the node is shutting down."
_TERMINATION_BY_KUBELET: Final = "TerminationByKubelet"
CONDITION_DISRUPTION_TARGET: Final = "DisruptionTarget"
_READY: Final = "Ready"
_CONTAINERS_READY: Final = "ContainersReady"

NODE_NOT_READY: Final = conditions.Wanted("Ready", ConditionStatus.FALSE, "KubeletNotReady", "node is shutting down")

TAINT: Final = Taint(key="shutdown.fairlead.dev/in-progress", effect=TaintEffect.NO_SCHEDULE)
"""DaemonSet pods tolerate a cordon but not this, so their controller does not recreate them in a loop (122912)."""

_MIRROR: Final = "kubernetes.io/config.mirror"
# DaemonSets put the replacement on the same node again; a node owns the mirrors of its static pods.
_STAYING_OWNERS: Final = frozenset({"DaemonSet", "Node"})


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How one container ended."""

    exit_code: int
    finished_at: dt.datetime
    reason: str = ""

    @property
    def words(self) -> str:
        """The reason that Kubernetes shows."""
        return self.reason or ("Completed" if self.exit_code == 0 else "Error")


def next_state(node: Node, *, complete: bool) -> str:
    """The state that the node shows next: the end state follows the start state only."""
    current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    is_shown = current is not None and current.reason in {NODE_SHUTDOWN.start, NODE_SHUTDOWN.end}
    return NODE_SHUTDOWN.end if complete and is_shown else NODE_SHUTDOWN.start


def node_conditions(state: str, *, well_known: bool, with_ready: bool = True) -> tuple[conditions.Wanted, ...]:
    """The conditions of a node whose shutdown has reached a state."""
    not_ready = (NODE_NOT_READY,) if with_ready else ()
    return (*conditions.after_state(NODE_SHUTDOWN.name, state, well_known=well_known), *not_ready)


def is_static(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod."""
    return _MIRROR in pod.metadata.annotations


def is_replaced_elsewhere(pod: Pod) -> bool:
    """Whether a controller creates a replacement on another node. Then the pod is deleted."""
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    return owner is not None and owner.kind not in _STAYING_OWNERS


def is_announced(pod: Pod) -> bool:
    """Whether the first write is done."""
    target, ready = pod.condition(CONDITION_DISRUPTION_TARGET), pod.condition(_READY)
    return (
        target is not None
        and target.status == ConditionStatus.TRUE
        and (ready is None or ready.status == ConditionStatus.FALSE)
    )


def announced(pod: Pod, now: dt.datetime) -> PodStatus:
    """The status of a pod whose containers are about to be stopped."""
    return wire.replace(
        pod.status,
        conditions=_with(
            pod,
            now,
            {
                CONDITION_DISRUPTION_TARGET: (ConditionStatus.TRUE, _TERMINATION_BY_KUBELET, _POD_MESSAGE),
                _READY: (ConditionStatus.FALSE, REJECTED_REASON, NODE_NOT_READY.message),
            },
        ),
    )


def runs_since(pod: Pod, moment: dt.datetime) -> bool:
    """Whether a container of the pod was started at that time or later, and runs."""
    started = [one.state.running.started_at for one in pod.status.container_statuses if one.state.running is not None]
    return any(one is not None and one >= deadlines.whole_seconds(moment) for one in started)


def ended(
    pod: Pod,
    containers: Mapping[str, ContainerEnd],
    now: dt.datetime,
    *,
    asked: dt.datetime | None = None,
    problem: str = "",
) -> PodStatus:
    """The last status of a pod: Succeeded if every container exited with 0 by itself, else Failed.

    A container whose end was not observed gets the time at which it was stopped, and why its end was not observed.
    """
    unseen = _unseen_message(asked, problem)
    statuses = tuple(
        _container_ended(one, containers.get(one.name), now, unseen) for one in pod.status.container_statuses
    )
    good = bool(statuses) and all(
        one.state.terminated is not None and one.state.terminated.exit_code == 0 for one in statuses
    )
    succeeded = pod.status.phase == PodPhase.SUCCEEDED or (pod.status.phase != PodPhase.FAILED and good)
    why = "PodCompleted" if succeeded else "PodFailed"
    return wire.replace(
        pod.status,
        phase=PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED,
        reason="" if succeeded else POD_REASON,
        message="" if succeeded else _POD_MESSAGE,
        container_statuses=statuses,
        conditions=_with(
            pod,
            now,
            {
                CONDITION_DISRUPTION_TARGET: (ConditionStatus.TRUE, _TERMINATION_BY_KUBELET, _POD_MESSAGE),
                _READY: (ConditionStatus.FALSE, why, ""),
                _CONTAINERS_READY: (ConditionStatus.FALSE, why, ""),
            },
        ),
    )


def rejected(pod: Pod) -> PodStatus:
    """The status of a pod that arrived during the shutdown and never ran."""
    return wire.replace(pod.status, phase=PodPhase.FAILED, reason=REJECTED_REASON, message=REJECTED_MESSAGE)


def _unseen_message(asked: dt.datetime | None, problem: str) -> str:
    when = "" if asked is None else f"It was asked to end at {asked:%Y-%m-%dT%H:%M:%SZ}. "
    return when + (f"How it ended was not seen: {problem}." if problem else "How it ended was not seen.")


def _container_ended(
    status: ContainerStatus, end: ContainerEnd | None, now: dt.datetime, unseen: str
) -> ContainerStatus:
    if status.state.terminated is not None:
        return wire.replace(status, ready=False)
    running = status.state.running
    # Its end was not observed: Kubernetes writes 137 for a container that is gone without a status.
    how = end or ContainerEnd(137, now, "ContainerStatusUnknown")
    terminated = ContainerStateTerminated(
        exit_code=how.exit_code,
        reason=how.words,
        message="" if end is not None else unseen,
        started_at=None if running is None else running.started_at,
        finished_at=deadlines.whole_seconds(how.finished_at),
        container_id=status.container_id,
    )
    return wire.replace(status, ready=False, started=False, state=ContainerState(terminated=terminated))


def _with(pod: Pod, now: dt.datetime, wanted: Mapping[str, tuple[str, str, str]]) -> tuple[PodCondition, ...]:
    kept = list(pod.status.conditions)
    now = deadlines.whole_seconds(now)
    for kind, (status, reason, message) in wanted.items():
        old = pod.condition(kind)
        since = old.last_transition_time if old is not None and old.status == status else now
        new = PodCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since,
            observed_generation=0 if old is None else old.observed_generation,
        )
        kept = [one for one in kept if one.type != kind] + [new]
    return tuple(kept)


def taints_with_ours(node: Node) -> tuple[Taint, ...]:
    """The node's taints with that of the shutdown, once."""
    return (*taints_without_ours(node.spec.taints), TAINT)


def taints_without_ours(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints without that of the shutdown."""
    return tuple(taint for taint in taints if (taint.key, taint.effect) != (TAINT.key, TAINT.effect))
