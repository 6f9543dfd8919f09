"""Telling people and machines about a shutdown: Kubernetes Events in the kubelet's words, and metrics.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go
"""

from __future__ import annotations

import datetime as dt
from typing import Literal

from kube_fairlead.agent.shutdown.listener import ShutdownListener
from kube_fairlead.agent.shutdown.state_file import ShutdownState
from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.recorder import EventRecorder

__all__ = ["ShutdownEventRecorder", "record_problems"]

_REASON = "Shutdown"
_AT_RISK = "GracefulShutdownAtRisk"
_NOT_AT_RISK = "GracefulShutdownReady"
_POLL_SECONDS = 5.0
_NAMED = 10  # pods; an Event's note is short


class ShutdownEventRecorder:
    """What a keeper reports, in one place. No call waits or fails."""

    def __init__(self, recorder: EventRecorder, metrics: Metrics) -> None:
        self._recorder = recorder
        self._start = metrics.gauge(
            "fairlead_graceful_shutdown_start_time_seconds", "When the last shutdown began, since the epoch."
        )
        self._end = metrics.gauge(
            "fairlead_graceful_shutdown_end_time_seconds",
            "When all pods had ended in the last shutdown, since the epoch; 0 while one is under way.",
        )
        self._pods = metrics.counter("fairlead_shutdown_pods_total", "Pods ended by a shutdown.", ["outcome"])

    def began(self, node_name: str, now: dt.datetime) -> None:
        """The machine goes down."""
        self._start.set(now.timestamp())
        self._end.set(0)
        self._tell(node_name, "Shutdown manager detected shutdown event")

    def called_off(self, node_name: str) -> None:
        """It does not."""
        self._tell(node_name, "Shutdown manager detected shutdown cancellation")

    def pod_ended(self, outcome: str) -> None:
        """A pod is gone: ended, killed when its time was over, abandoned or failed."""
        self._pods.labels(outcome=outcome).inc()

    def completed(self, node_name: str, now: dt.datetime, state: ShutdownState) -> None:
        """Every pod has had its turn."""
        self._end.set(now.timestamp())
        self._tell(node_name, f"All pods have had their turn to end: {_counted(state)}")

    def came_back(
        self, node_name: str, started_at: dt.datetime, state: ShutdownState | None, *, complete: bool
    ) -> None:
        """The machine is up again."""
        how = "all pods had had their turn" if complete else "not all pods had had their turn"
        self._start.set(started_at.timestamp())
        self._tell(
            node_name,
            f"The node is up again after the shutdown of {started_at:%Y-%m-%dT%H:%M:%SZ}; {how}: {_counted(state)}",
        )

    def at_risk(self, node_name: str, problem: str) -> None:
        """The machine might not wait for its pods."""
        self._tell(node_name, f"The machine may not wait for its pods: {problem}", reason=_AT_RISK, type="Warning")

    def no_longer_at_risk(self, node_name: str) -> None:
        """It will."""
        self._tell(node_name, "The machine waits for its pods", reason=_NOT_AT_RISK)

    def _tell(
        self,
        node_name: str,
        note: str,
        *,
        reason: str = _REASON,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the word of the API
    ) -> None:
        # As the kubelet: a node's name stands for its uid in Events about it.
        node = ObjectReference(api_version="v1", kind="Node", name=node_name, uid=node_name)
        self._recorder.event(node, reason=reason, note=note, type=type)


async def record_problems(ear: ShutdownListener, teller: ShutdownEventRecorder, node_name: str, clock: Clock) -> None:
    """Until cancelled: an Event when the machine might not wait for its pods, or not so long, and when it will."""
    told = ""
    while True:
        problem = ear.problem
        if problem != told and not ear.preparing:
            if problem:
                teller.at_risk(node_name, problem)
            else:
                teller.no_longer_at_risk(node_name)
            told = problem
        await clock.sleep(_POLL_SECONDS)


def _counted(state: ShutdownState | None) -> str:
    outcomes = {} if state is None else state.outcomes
    counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())) or "there were none"
    unseen = [] if state is None else [f"{pod.namespace}/{pod.name}" for pod in state.unseen]
    if not unseen:
        return counted
    named = ", ".join(unseen[:_NAMED]) + (f" and {len(unseen) - _NAMED} more" if len(unseen) > _NAMED else "")
    return f"{counted}; not seen to end: {named}"
