"""One hollow kubelet: it decides what to do next with a pod of its node; `fleet` writes to the API server."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead_lab.hollow import statuses
from kube_fairlead_lab.hollow.behaviour import behaviour
from kube_fairlead_lab.hollow.node_plans import NodePlan
from kube_fairlead_lab.hollow.runtime import Runtime, Sandbox

__all__ = ["Kubelet", "Remove", "Report", "Step", "Wait"]

# The API server's default grace period.
_GRACE_SECONDS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Write this status, then decide again."""

    status: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Remove:
    """Delete the pod for good: its containers have ended, and its status shows it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Wait until this time; None: until the pod changes."""

    until: dt.datetime | None = None


Step = Report | Remove | Wait


class Kubelet:
    """The kubelet of one hollow node.

    When it is stopped, it neither heartbeats nor handles its pods, and containers keep running, as with a real kubelet.
    Another component can then stop them through `runtime`.
    """

    def __init__(self, plan: NodePlan, *, boot_id: str, on_change: Callable[[Pod | None], None]) -> None:
        self.plan = plan
        self.boot_id = boot_id
        self.is_running = True
        self.not_ready = ""  # reason of the condition Ready=False, if any
        self.runtime = Runtime(plan.pod_cidr, on_change=on_change)
        self._on_change = on_change

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.plan.name

    def stop(self) -> None:
        """Stop the kubelet's process, and nothing else."""
        self.is_running = False
        self._on_change(None)

    def start(self) -> None:
        """Start the process again. Its containers are as they were."""
        self.is_running = True
        self._on_change(None)

    def power_off(self, now: dt.datetime) -> None:
        """Power the machine off: the kubelet and every container end at once."""
        self.is_running = False
        self.runtime.lose_power(now)
        self._on_change(None)

    def boot(self, boot_id: str) -> None:
        """Boot the machine with a new boot id. Pods that should run are started again."""
        self.boot_id = boot_id
        self.start()

    def next_step(self, pod: Pod, now: dt.datetime) -> Step:
        """What to do with a pod now. Starts and stops containers on the way, which takes no time here."""
        self.runtime.see(pod)
        sandbox = self.runtime.get(pod.uid)
        if pod.deleting:
            return self._end(pod, sandbox, now)
        if pod.finished:
            return Wait()
        if sandbox is None and pod.status.phase == "Running" and pod.status.pod_ip:
            sandbox = self.runtime.adopt(pod, now)
        if sandbox is None or sandbox.has_ended(now):
            if sandbox is not None and pod.spec.restart_policy == "Never":
                return Report(statuses.ended(pod, sandbox, now))
            sandbox = self.runtime.start(pod, now, host_address=self.plan.address)
        return self._keep_running(pod, sandbox, now)

    def _keep_running(self, pod: Pod, sandbox: Sandbox, now: dt.datetime) -> Step:
        delay = behaviour(pod).ready_after_seconds
        ready_at = None if delay is None else sandbox.started + dt.timedelta(seconds=delay)
        is_ready = ready_at is not None and ready_at <= now
        wanted = statuses.running(pod, sandbox, now, host_address=self.plan.address, is_ready=is_ready)
        if not _has_status(pod, wanted, sandbox.restarts):
            return Report(wanted)
        return Wait(None if is_ready else ready_at)

    def _end(self, pod: Pod, sandbox: Sandbox | None, now: dt.datetime) -> Step:
        if sandbox is None and pod.status.phase == "Running" and pod.status.pod_ip:
            sandbox = self.runtime.adopt(pod, now)
        if sandbox is None:
            return Remove()  # it never ran on this node
        grace = pod.metadata.deletion_grace_period_seconds
        sandbox = self.runtime.stop(pod.uid, _GRACE_SECONDS if grace is None else grace, now) or sandbox
        if not sandbox.has_ended(now):
            return Wait(sandbox.ends_at)
        return Remove() if pod.finished else Report(statuses.ended(pod, sandbox, now))


def _has_status(pod: Pod, wanted: dict[str, Any], restarts: int) -> bool:
    """Return whether the pod's status already has these values."""
    conditions = {condition.type: condition.status for condition in pod.status.conditions}
    return (
        pod.status.phase == wanted["phase"]
        and pod.status.pod_ip == wanted["podIP"]
        and all(conditions.get(one["type"]) == one["status"] for one in wanted["conditions"])
        and len(pod.status.container_statuses) == len(pod.spec.containers)
        and all(one.restart_count == restarts for one in pod.status.container_statuses)
    )
