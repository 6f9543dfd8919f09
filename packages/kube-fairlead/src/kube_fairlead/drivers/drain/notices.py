"""Reports blocked pods: a log line, and a Kubernetes Event about the pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.driverapi.messages import Work
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.planner import DrainPlan

__all__ = ["Notices"]

# While a pod is blocked its Event is repeated, which the recorder counts in the Event's series. A series ends after six
# minutes without a repetition.
_AGAIN_SECONDS: Final = 60.0
_BLOCKED: Final = frozenset({Cause.BUDGET, Cause.NAMESPACE, Cause.TROUBLE, Cause.DENIED})

_log = logs.get_logger(__name__)


class Notices:
    """The notices of one drain."""

    def __init__(self, work: Work, recorder: EventRecorder | None, clock: Clock) -> None:
        self._work = work
        self._recorder = recorder
        self._clock = clock
        self._reported: dict[str, tuple[str, float]] = {}  # by pod uid: the last report, and when

    def publish(self, plan: DrainPlan, attempts: Mapping[str, EvictionAttempt]) -> None:
        """Report which pods are blocked, and why: once, and again every minute while it lasts."""
        pods = {pod.uid: pod for pod in (*plan.remaining, *(one.pod for one in plan.stranded))}
        for uid in [uid for uid in self._reported if uid not in pods]:
            del self._reported[uid]
        for pod in pods.values():
            attempt = attempts.get(pod.uid)
            if attempt is not None and attempt.cause in _BLOCKED and not pod.deleting:
                self._publish(pod, attempt.message)

    def _publish(self, pod: Pod, why: str) -> None:
        now = self._clock.monotonic()
        message, when = self._reported.get(pod.uid, ("", 0.0))
        if message == why and now - when < _AGAIN_SECONDS:
            return
        self._reported[pod.uid] = why, now
        event = self._work.event_name
        if message != why:
            _log.info("eviction blocked", pod=pod.key, uid=pod.uid, event=event, why=why)
        if self._recorder is not None:
            note = f"Cannot leave node {self._work.node_name}, which is drained ({event}): {why}"
            self._recorder.event(pod, reason="DrainBlocked", note=note, type="Warning", action="Evicting")
