"""Record the steps of events: Kubernetes Events on the Node and the LifecycleEvent, and metrics."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleEventStatus
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.recorder import EventRecorder

__all__ = ["ClaimEventRecorder"]

_CLAIM_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0)
_RUN_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0)


class ClaimEventRecorder:
    """Records what the engine does. No call waits or fails."""

    def __init__(self, recorder: EventRecorder, metrics: Metrics) -> None:
        self._recorder = recorder
        self._claims = metrics.counter("fairlead_lifecycle_claims_total", "Events claimed.", ["driver"])
        self._claim_seconds = metrics.histogram(
            "fairlead_lifecycle_claim_duration_seconds",
            "Seconds from the creation of an event, which is in whole seconds, to its claim.",
            buckets=_CLAIM_BUCKETS,
        )
        self._finished = metrics.counter(
            "fairlead_lifecycle_events_finished_total", "Events that reached a terminal status.", ["status", "driver"]
        )
        self._run_seconds = metrics.histogram(
            "fairlead_lifecycle_transition_duration_seconds",
            "Seconds from the claim of an event to its terminal status.",
            ["status"],
            buckets=_RUN_BUCKETS,
        )
        self._failures = metrics.counter(
            "fairlead_lifecycle_step_failures_total", "Steps that failed and are retried.", ["step"]
        )

    def waiting(self, event: LifecycleEvent, node: Node | None, why: str, *, for_its_turn: bool) -> None:
        """An event cannot be claimed yet."""
        self._record(event, node, "WaitingForTurn" if for_its_turn else "WaitingForDriver", why)

    def claimed(self, event: LifecycleEvent, node: Node | None, now: dt.datetime) -> None:
        """A claim is stored."""
        status = event.status
        self._claims.labels(driver=status.driver).inc()
        if event.metadata.creation_timestamp is not None:
            self._claim_seconds.observe(max(0.0, (now - event.metadata.creation_timestamp).total_seconds()))
        until = f", to be complete by {status.sla:%Y-%m-%dT%H:%M:%SZ}" if status.sla is not None else ""
        name = event.spec.transition_name
        self._record(event, node, "Claimed", f"Claimed for transition {name} by driver {status.driver}{until}")

    def started(self, event: LifecycleEvent, node: Node | None) -> None:
        """The start state is reached."""
        state = event.status.transition.start if event.status.transition else ""
        self._record(event, node, "TransitionStarted", f"Transition {event.spec.transition_name} reached {state}")

    def driver_reachability(self, event: LifecycleEvent, node: Node | None, status: LifecycleEventStatus) -> None:
        """The driver of a claimed event became unreachable, or reachable again."""
        if status.driver_unreachable_time is not None:
            self._record(event, node, "DriverUnreachable", status.message, kind="Warning")
        else:
            self._record(event, node, "DriverReachable", f"Driver {status.driver} is reachable again")

    def finished(self, event: LifecycleEvent, node: Node | None, now: dt.datetime) -> None:
        """A terminal status is stored."""
        status = event.status
        self._finished.labels(status=status.claim_status, driver=status.driver).inc()
        if status.claim_time is not None:
            seconds = max(0.0, (now - status.claim_time).total_seconds())
            self._run_seconds.labels(status=status.claim_status).observe(seconds)
        good = event.claim_status is ClaimStatus.SUCCEEDED
        state = f" reached {status.transition.end}" if good and status.transition else ""
        name = event.spec.transition_name
        note = f"Transition {name}{state}" if good else f"Transition {name}: {status.message}"
        self._record(event, node, f"Transition{status.claim_status}", note, kind="Normal" if good else "Warning")

    def unrecorded(self, event: LifecycleEvent, node: Node | None, why: str) -> None:
        """The finalizer of an event is removed although the server rejects its record."""
        self._record(event, node, "RecordNotWritten", f"Its result is not recorded: {why}", kind="Warning")

    def failed_step(self, step: str) -> None:
        """A step failed and will be retried."""
        self._failures.labels(step=step).inc()

    def _record(
        self,
        event: LifecycleEvent,
        node: Node | None,
        reason: str,
        note: str,
        *,
        kind: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        note = note[:1024]
        self._recorder.event(event, reason=reason, note=note, type=kind, related=node)
        if node is not None:
            self._recorder.event(node, reason=f"Lifecycle{reason}", note=f"{event.name}: {note}"[:1024], type=kind)
