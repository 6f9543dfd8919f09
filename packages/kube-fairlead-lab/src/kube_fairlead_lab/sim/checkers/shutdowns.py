"""Invariant 10: a node that shuts down never reports otherwise, and ends its pods in order and in time."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from kube_fairlead.agent.shutdown.pod_cache import CachedPod
from kube_fairlead.agent.shutdown.pod_runtime import RunningPod
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.lifecycle.shutdown_plan import group_of, latest_end
from kube_fairlead.lifecycle.shutdown_status import TAINT
from kube_fairlead_lab.hollow.runtime import Sandbox
from kube_fairlead_lab.sim.actors.machines import PERIODS, SimMachine, SimMemory
from kube_fairlead_lab.sim.commits import NODES, PODS, Commit, Commits, is_ready
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Shutdowns"]

_STATES: Final = (NODE_SHUTDOWN.start, NODE_SHUTDOWN.end)
_BUDGET_SECONDS: Final = latest_end(PERIODS, len(PERIODS) - 1)
_SLACK_SECONDS: Final = 1.0  # clock drift, and the latency of the runtime
_FIRST_SECONDS: Final = 1.8  # a runtime that fails twice; less than a timeout of the API server
_ORDER_SECONDS: Final = 1.0  # the pods of one group are not stopped at the same moment
_TELLING_SECONDS: Final = 8.0  # a lost request and a slow one after it
_IN_FLIGHT_SECONDS: Final = 5.0  # a request that a kubelet sent before it was stopped arrives by then


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """When a pod was first stopped, and its deadline."""

    at: float
    group: int
    ends: float

    def is_prolonged(self, now: float, grace_seconds: float) -> bool:
        """Return whether this grace period ends after its deadline; a late kill is allowed."""
        return grace_seconds > 0 and now + grace_seconds > self.ends + _SLACK_SECONDS


@dataclasses.dataclass(slots=True)
class _Shutdown:
    """One shutdown of one machine."""

    heard_at: float
    first_uid: str  # uid of the node at that time
    asked: dict[str, _Asked] = dataclasses.field(default_factory=dict)  # by pod uid
    is_on_disk: bool = True  # the agent's state is on the machine's disk
    node_uid: str = ""  # uid of the node that shows the shutdown
    state: str = ""
    is_tainted: bool = False
    kubelet_stopped_at: float | None = None


class Shutdowns:
    """Checks what agents do to machines, and what nodes show in the API."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._machines: dict[str, SimMachine] = {}
        self._current: dict[str, _Shutdown] = {}
        self._last: dict[str, _Shutdown] = {}  # over, but not finished by the agent yet
        commits.listeners.append(self._committed)

    # ---- reported by machines

    def watch(self, machine: SimMachine) -> None:
        """Add a machine."""
        self._machines[machine.node_name] = machine

    def heard(self, machine: SimMachine) -> None:
        """An agent has received the announcement: the time counts from now, unless the agent dies at once."""
        shutdown = self._of(machine)
        if shutdown is not None and (shutdown.asked or machine.is_disk_full or _is_remembered(machine)):
            return
        node = self._commits.of(NODES).get(machine.node_name)
        uid = "" if node is None else node["metadata"]["uid"]
        self._current[machine.node_name] = _Shutdown(self._environment.loop.time(), uid)

    def asked(self, machine: SimMachine, pod: RunningPod, grace_seconds: float, known: CachedPod | None) -> None:
        """An agent stops a pod."""
        shutdown = self._of(machine)
        if shutdown is None:
            return  # cancelled at this moment
        now = self._environment.loop.time()
        elapsed = now - shutdown.heard_at
        if elapsed + grace_seconds > _BUDGET_SECONDS + _SLACK_SECONDS:
            what = f"{grace_seconds:.1f} s after {elapsed:.1f} s of {_BUDGET_SECONDS} s"
            self._break(f"pod {pod.name} of {machine.node_name} gets {what}")
        shutdown.is_on_disk = shutdown.is_on_disk and not machine.is_disk_full
        before = shutdown.asked.get(pod.uid)
        if before is not None and shutdown.is_on_disk and before.is_prolonged(now, grace_seconds):
            self._break(f"pod {pod.name} of {machine.node_name} gets {grace_seconds:.1f} s more than it had")
        if known is None or before is not None:
            return
        group = group_of(PERIODS, known.priority)
        allowed = min(PERIODS[group].seconds, known.grace_seconds or 0)
        if grace_seconds > allowed + 0.01:
            self._break(f"pod {pod.name} of {machine.node_name} gets {grace_seconds:.1f} s, but may have {allowed}")
        available = min(allowed - _lost_since_noted(machine, pod, elapsed), latest_end(PERIODS, group) - elapsed)
        if grace_seconds < available - _FIRST_SECONDS:
            self._break(f"pod {pod.name} of {machine.node_name} gets {grace_seconds:.1f} s of {available:.1f}")
        needs_all = allowed == PERIODS[group].seconds
        well_since = self._environment.well_since(f"agent-{machine.node_name}")
        is_well = well_since is not None and well_since <= shutdown.heard_at
        if needs_all and is_well and not shutdown.asked and not group and elapsed > _FIRST_SECONDS:
            self._break(f"pod {pod.name} of {machine.node_name} is stopped only after {elapsed:.1f} s")
        shutdown.asked[pod.uid] = _Asked(now, group, now + allowed)
        sandbox = machine.kubelet.runtime.get(pod.uid)
        if sandbox is None:
            return
        ran_for = (self._environment.clock.now() - sandbox.started).total_seconds()
        for other in shutdown.asked.values():
            if other.group > group and now - ran_for < other.at < now - _ORDER_SECONDS:
                self._break(f"pod {pod.name} of {machine.node_name} is stopped after a pod of higher priority")

    def started(self, machine: SimMachine, name: str) -> None:
        """The kubelet starts containers."""
        shutdown = self._of(machine)
        if shutdown is not None and shutdown.asked:
            self._break(f"pod {name} is started on {machine.node_name}, which shuts down")

    def released(self, machine: SimMachine) -> None:
        """An agent releases the lock: the API or the machine's disk must have what it knows."""
        shutdown = self._of(machine)
        if shutdown is None:
            return
        self._environment.counts["machines released"] += 1
        self._check_duties(machine, shutdown)
        state = SimMemory(machine).load()
        if state is None or machine.is_disk_full:
            return  # nothing can be asked of a disk that takes nothing
        on_disk = {pod.running().uid for pod in (*state.ended, *state.unseen)}
        for uid in shutdown.asked:
            sandbox = machine.kubelet.runtime.get(uid)
            if sandbox is not None and uid not in on_disk and not self._is_accounted_for(uid):
                how = "ended" if sandbox.has_ended(self._environment.clock.now()) else "is"
                self._break(
                    f"{machine.node_name} is released, but neither API nor disk shows how {sandbox.pod.name} {how}"
                )

    def forgotten(self, machine: SimMachine) -> None:
        """An agent has finished a shutdown: every pod that it stopped is finished, deleted, or runs again."""
        self._of(machine)
        shutdown = self._last.pop(machine.node_name, None)
        if shutdown is None or machine.is_disk_full or not shutdown.is_on_disk:
            return
        for uid in shutdown.asked:
            sandbox = machine.kubelet.runtime.get(uid)
            runs_again = sandbox is not None and not sandbox.has_ended(self._environment.clock.now())
            if not runs_again and not _is_for_the_kubelet(machine, sandbox) and not self._is_accounted_for(uid):
                self._break(f"the shutdown of {machine.node_name} is over, but the API does not show how {uid} ended")

    def _is_accounted_for(self, uid: str) -> bool:
        """Return whether the API shows the pod's end, or has no such pod."""
        found = next((pod for pod in self._commits.of(PODS).values() if pod["metadata"]["uid"] == uid), None)
        return found is None or _finished(found)

    def _check_duties(self, machine: SimMachine, shutdown: _Shutdown) -> None:
        """Check that no pod runs at an early release, and that the node shows the shutdown if it could."""
        now, elapsed = self._environment.clock.now(), self._environment.loop.time() - shutdown.heard_at
        left = sorted(sandbox.pod.name for sandbox in machine.kubelet.runtime if not sandbox.has_ended(now))
        if left and elapsed < _BUDGET_SECONDS - _SLACK_SECONDS:
            self._break(f"{machine.node_name} is released after {elapsed:.1f} s while {left} run")
        well_since = self._environment.well_since(f"agent-{machine.node_name}")
        node = self._commits.of(NODES).get(machine.node_name)
        is_known = node is not None and node["metadata"]["uid"] == shutdown.first_uid
        now_seconds = self._environment.loop.time()
        could_tell = well_since is not None and now_seconds - max(well_since, shutdown.heard_at) >= _TELLING_SECONDS
        if node is not None and is_known and could_tell and not (_reason(node) in _STATES and _is_tainted(node)):
            self._break(
                f"{machine.node_name} is released after {elapsed:.1f} s, but its node never showed the shutdown"
            )

    def _of(self, machine: SimMachine) -> _Shutdown | None:
        """Return the current shutdown, or None."""
        current = self._current.get(machine.node_name)
        if current is not None and (not machine.preparing or current.heard_at < machine.down_since):
            self._last[machine.node_name] = self._current.pop(machine.node_name)
            return None
        return current

    @property
    def is_over(self) -> bool:
        """Whether every machine is up, and no node shows a shutdown."""
        return not self._still_down()

    def at_end(self) -> None:
        """Check that nothing is left of a shutdown."""
        for what in self._still_down():
            raise Violation("liveness", what)

    def _still_down(self) -> list[str]:
        left = []
        for name, machine in self._machines.items():
            node = self._commits.of(NODES).get(name)
            if machine.preparing or not machine.is_on or not machine.kubelet.is_running:
                left.append(f"the machine of {name} does not boot")
            elif node is not None and (_reason(node) in _STATES or _is_tainted(node)):
                left.append(f"node {name} shows a shutdown that is over")
        return left

    # ---- durable changes

    def _committed(self, commit: Commit) -> None:
        if commit.table != NODES or commit.after is None or commit.key not in self._machines:
            return
        machine = self._machines[commit.key]
        shutdown = self._of(machine)
        if shutdown is None:
            return
        state, uid = _reason(commit.after), commit.after["metadata"]["uid"]
        if shutdown.node_uid != uid:
            # A condition of an earlier shutdown does not belong to this one.
            if state not in _STATES or _said(commit.after) == _said(commit.before):
                return
            shutdown.node_uid, shutdown.state, shutdown.is_tainted = uid, state, False
        if state not in _STATES or (state, shutdown.state) == _STATES:
            raise Violation("10", f"node {commit.key} shows {state!r} after {shutdown.state!r} during a shutdown")
        shutdown.state = state
        tainted = _is_tainted(commit.after)
        if shutdown.is_tainted and not tainted:
            raise Violation("10", f"node {commit.key} accepts pods again during a shutdown")
        shutdown.is_tainted = tainted
        self._check_ready(machine, shutdown, commit)

    def _check_ready(self, machine: SimMachine, shutdown: _Shutdown, commit: Commit) -> None:
        if machine.kubelet.is_running:
            return
        now = self._environment.loop.time()
        if shutdown.kubelet_stopped_at is None:
            shutdown.kubelet_stopped_at = now
        is_news = is_ready(commit.after) and not is_ready(commit.before)
        if is_news and now - shutdown.kubelet_stopped_at > _IN_FLIGHT_SECONDS:
            raise Violation("10", f"node {commit.key} is Ready during a shutdown")

    def _break(self, what: str) -> None:
        self._environment.violate(Violation("10", what))


def _is_for_the_kubelet(machine: SimMachine, sandbox: Sandbox | None) -> bool:
    """Return whether a pod outlived a cancelled shutdown, so that the kubelet handles it again."""
    ended, called_off = None if sandbox is None else sandbox.ends_at, machine.called_off_at
    return ended is not None and called_off is not None and ended > called_off


def _lost_since_noted(machine: SimMachine, pod: RunningPod, elapsed: float) -> float:
    """Seconds since the disk shows that a pod was stopped: an agent can die before it calls the runtime.

    The next agent cannot know that, and grants no time twice.
    """
    state = SimMemory(machine).load()
    noted = None if state is None else state.asked.get(pod.uid)
    return 0.0 if noted is None else max(0.0, elapsed - noted)


def _is_remembered(machine: SimMachine) -> bool:
    state = SimMemory(machine).load()
    return state is not None and state.boot_id == machine.boot_id


def _reason(node: dict[str, Any]) -> str:
    return _said(node)[0]


def _said(node: dict[str, Any] | None) -> tuple[str, str]:
    """Return the state that a node shows, and since when."""
    for one in () if node is None else node.get("status", {}).get("conditions", ()):
        if one["type"] == CONDITION_LIFECYCLE_TRANSITION:
            return str(one.get("reason")), str(one.get("lastTransitionTime"))
    return "", ""


def _is_tainted(node: dict[str, Any]) -> bool:
    return any(taint["key"] == TAINT.key for taint in node.get("spec", {}).get("taints", ()))


def _finished(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
