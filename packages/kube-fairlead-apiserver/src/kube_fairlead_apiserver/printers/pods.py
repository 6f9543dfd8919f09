"""Pods: the cells of `kubectl get pods`.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.columns import (
    NONE,
    Printer,
    age,
    columns,
    dig,
    has_condition,
    listed,
    name_of,
    since,
)

__all__ = ["POD"]


def _cells(pod: Json, now: dt.datetime) -> list[Any]:
    reading = _ContainerSummary(pod)
    restarts = str(reading.restarts)
    if reading.restarts and reading.last_restart:
        restarts = f"{reading.restarts} ({since(reading.last_restart, now)} ago)"
    addresses = listed(pod, "status", "podIPs")
    return [
        name_of(pod),
        f"{reading.ready}/{reading.total}",
        reading.reason,
        restarts,
        age(pod, now),
        (dig(addresses[0], "ip", default="") if addresses else "") or NONE,
        dig(pod, "spec", "nodeName", default="") or NONE,
        dig(pod, "status", "nominatedNodeName", default="") or NONE,
        _readiness_gates(pod),
    ]


def _conditions(pod: Json) -> list[Json]:
    phase = dig(pod, "status", "phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


class _ContainerSummary:
    """The containers of one pod, read in the order in which they start: init containers, then the others.

    A container with a problem determines the pod's status; a later one overrides an earlier one.
    """

    def __init__(self, pod: Json) -> None:
        self._pod = pod
        init = {dig(container, "name"): container for container in listed(pod, "spec", "initContainers")}
        self._sidecars = {name for name, container in init.items() if container.get("restartPolicy") == "Always"}
        self._init_total = len(listed(pod, "spec", "initContainers"))
        self.total = len(listed(pod, "spec", "containers")) + len(self._sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.reason: str = dig(pod, "status", "reason", default="") or dig(pod, "status", "phase", default="")
        if any(
            condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
            for condition in listed(pod, "status", "conditions")
        ):
            self.reason = "SchedulingGated"
        if not self._read_init_containers() or has_condition(pod, "Initialized"):
            self._read_containers()
        self._read_deletion()

    def _read_init_containers(self) -> bool:
        """Return whether the pod is still (or again) initializing."""
        for index, status in enumerate(listed(self._pod, "status", "initContainerStatuses")):
            self._count_restarts(status)
            terminated, waiting = dig(status, "state", "terminated"), dig(status, "state", "waiting", default={})
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if status.get("name") in self._sidecars and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            if terminated is not None:
                self.reason = "Init:" + _termination(terminated)
            elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
                self.reason = "Init:" + waiting["reason"]
            else:
                self.reason = f"Init:{index}/{self._init_total}"
            return True
        return False

    def _read_containers(self) -> None:
        self.restarts, self.last_restart = 0, ""
        for status in listed(self._pod, "status", "initContainerStatuses"):
            if status.get("name") in self._sidecars:
                self._count_restarts(status)
        running, error = False, ""
        for status in reversed(listed(self._pod, "status", "containerStatuses")):
            self._count_restarts(status)
            state = dig(status, "state", default={})
            if dig(state, "waiting", "reason"):
                self.reason = state["waiting"]["reason"]
            elif state.get("terminated") is not None:
                self.reason = _termination(state["terminated"])
                error = self.reason if state["terminated"].get("exitCode") else error
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and has_condition(self._pod, "Ready"):
                self.reason = "Running"
            elif error:
                self.reason = error
            elif running:
                self.reason = "NotReady"

    def _read_deletion(self) -> None:
        if not dig(self._pod, "metadata", "deletionTimestamp"):
            return
        if dig(self._pod, "status", "reason") == "NodeLost":
            self.reason = "Unknown"
        elif dig(self._pod, "status", "phase") not in {"Succeeded", "Failed"}:
            self.reason = "Terminating"

    def _count_restarts(self, status: Json) -> None:
        self.restarts += status.get("restartCount") or 0
        finished = dig(status, "lastState", "terminated", "finishedAt", default="")
        self.last_restart = max(self.last_restart, finished)  # both RFC 3339 in UTC, so the text sorts as the time


def _termination(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _readiness_gates(pod: Json) -> str:
    gates = listed(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(has_condition(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


POD = Printer(
    columns("Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
    _cells,
    _conditions,
)
