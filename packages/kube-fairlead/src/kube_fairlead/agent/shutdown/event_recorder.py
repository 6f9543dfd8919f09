"""Record a shutdown: Kubernetes Events with the kubelet's messages, and metrics.

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
_NAMED = 10  # pods named in a note, which has a maximum length


class ShutdownEventRecorder:
    """Records the steps of a shutdown. No call waits or fails."""

    def __init__(self, recorder: EventRecorder, metrics: Metrics) -> None:
        self._recorder = recorder
        self._start = metrics.gauge(
            "fairlead_graceful_shutdown_start_time_seconds", "Start of the last shutdown, in seconds since the epoch."
        )
        self._end = metrics.gauge(
            "fairlead_graceful_shutdown_end_time_seconds",
            "End of pod termination in the last shutdown, in seconds since the epoch; 0 while one is in progress.",
        )
        self._pods = metrics.counter("fairlead_shutdown_pods_total", "Pods terminated by a shutdown.", ["outcome"])

    def began(self, node_name: str, now: dt.datetime) -> None:
        """The node shuts down."""
        self._start.set(now.timestamp())
        self._end.set(0)
        self._record(node_name, "Shutdown manager detected shutdown event")

    def cancelled(self, node_name: str) -> None:
        """The shutdown was cancelled."""
        self._record(node_name, "Shutdown manager detected shutdown cancellation")

    def pod_ended(self, outcome: str) -> None:
        """A pod has ended; `outcome`: ended, killed when its grace was over, abandoned or failed."""
        self._pods.labels(outcome=outcome).inc()

    def completed(self, node_name: str, now: dt.datetime, state: ShutdownState) -> None:
        """The termination of pods is over."""
        self._end.set(now.timestamp())
        self._record(node_name, f"Pod termination finished: {_counted(state)}")

    def rebooted(self, node_name: str, started_at: dt.datetime, state: ShutdownState | None, *, complete: bool) -> None:
        """The node started again after a shutdown."""
        how = "pod termination finished" if complete else "pod termination did not finish"
        self._start.set(started_at.timestamp())
        self._record(
            node_name,
            f"The node started again after the shutdown of {started_at:%Y-%m-%dT%H:%M:%SZ}; {how}: {_counted(state)}",
        )

    def at_risk(self, node_name: str, problem: str) -> None:
        """The operating system might not wait for the pods."""
        self._record(
            node_name, f"The node may shut down before its pods end: {problem}", reason=_AT_RISK, type="Warning"
        )

    def no_longer_at_risk(self, node_name: str) -> None:
        """The operating system waits for the pods."""
        self._record(node_name, "The node waits for its pods before it shuts down", reason=_NOT_AT_RISK)

    def _record(
        self,
        node_name: str,
        note: str,
        *,
        reason: str = _REASON,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> None:
        # As the kubelet: Events about a node have its name as uid.
        node = ObjectReference(api_version="v1", kind="Node", name=node_name, uid=node_name)
        self._recorder.event(node, reason=reason, note=note, type=type)


async def record_problems(
    listener: ShutdownListener, recorder: ShutdownEventRecorder, node_name: str, clock: Clock
) -> None:
    """Record an Event whenever the listener reports or clears a problem. Runs until cancelled."""
    recorded = ""
    while True:
        problem = listener.problem
        if problem != recorded and not listener.preparing:
            if problem:
                recorder.at_risk(node_name, problem)
            else:
                recorder.no_longer_at_risk(node_name)
            recorded = problem
        await clock.sleep(_POLL_SECONDS)


def _counted(state: ShutdownState | None) -> str:
    outcomes = {} if state is None else state.outcomes
    counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())) or "no pods"
    unseen = [] if state is None else [f"{pod.namespace}/{pod.name}" for pod in state.unseen]
    if not unseen:
        return counted
    named = ", ".join(unseen[:_NAMED]) + (f" and {len(unseen) - _NAMED} more" if len(unseen) > _NAMED else "")
    return f"{counted}; end not observed: {named}"
