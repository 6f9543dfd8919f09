"""Invariant 10: a node that is going down never says or does as if it were not, and takes no more time than it has."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from kube_fairlead.agent.shutdown.ending import RunningPod
from kube_fairlead.agent.shutdown.podcache import CachedPod
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
_SLACK_SECONDS: Final = 1.0  # a clock that drifts, a runtime that takes a moment to answer
_FIRST_SECONDS: Final = 1.8  # a runtime that fails twice; less than a wait for an API that does not answer
_ORDER_SECONDS: Final = 1.0  # the pods of one group are not asked in one moment
_TELLING_SECONDS: Final = 8.0  # a lost request and a slow one after it
_IN_FLIGHT_SECONDS: Final = 5.0  # what a kubelet sent before it was stopped arrives by then


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """When a pod was first asked to end, and by when it must have."""

    at: float
    group: int
    ends: float

    def is_prolonged(self, now: float, grace_seconds: float) -> bool:
        """Whether so many seconds are more than it had; to be killed late is no present."""
        return grace_seconds > 0 and now + grace_seconds > self.ends + _SLACK_SECONDS


@dataclasses.dataclass(slots=True)
class _Shutdown:
    """One shutdown of one machine, as it truly is."""

    heard_at: float
    first_uid: str  # of the node as it was then
    asked: dict[str, _Asked] = dataclasses.field(default_factory=dict)  # by the pod's uid
    is_on_disk: bool = True  # nothing could keep the agent from remembering
    node_uid: str = ""  # of the node that has said so
    state: str = ""
    is_tainted: bool = False
    kubelet_stopped_at: float | None = None


class Shutdowns:
    """Hears from the machines what agents do to them, and from the disk what nodes say."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._machines: dict[str, SimMachine] = {}
        self._current: dict[str, _Shutdown] = {}
        self._last: dict[str, _Shutdown] = {}  # over, and not wound up yet
        commits.listeners.append(self._committed)

    # ---- reported by machines

    def watch(self, machine: SimMachine) -> None:
        """From now on this one too."""
        self._machines[machine.node_name] = machine

    def heard(self, machine: SimMachine) -> None:
        """An agent knows: from now on time counts, over all its lives; but for one that died with what it heard."""
        shutdown = self._of(machine)
        if shutdown is not None and (shutdown.asked or machine.is_disk_full or _is_remembered(machine)):
            return
        node = self._commits.of(NODES).get(machine.node_name)
        uid = "" if node is None else node["metadata"]["uid"]
        self._current[machine.node_name] = _Shutdown(self._environment.loop.time(), uid)

    def asked(self, machine: SimMachine, pod: RunningPod, grace_seconds: float, known: CachedPod | None) -> None:
        """An agent ends a pod."""
        shutdown = self._of(machine)
        if shutdown is None:
            return  # called off this very moment
        now = self._environment.loop.time()
        elapsed = now - shutdown.heard_at
        if elapsed + grace_seconds > _BUDGET_SECONDS + _SLACK_SECONDS:
            what = f"{grace_seconds:.1f} s after {elapsed:.1f} s, and all have {_BUDGET_SECONDS} s"
            self._break(f"pod {pod.name} of {machine.node_name} is given {what}")
        shutdown.is_on_disk = shutdown.is_on_disk and not machine.is_disk_full
        before = shutdown.asked.get(pod.uid)
        if before is not None and shutdown.is_on_disk and before.is_prolonged(now, grace_seconds):
            self._break(f"pod {pod.name} of {machine.node_name} is given {grace_seconds:.1f} s more than it had")
        if known is None or before is not None:
            return
        group = group_of(PERIODS, known.priority)
        allowed = min(PERIODS[group].seconds, known.grace_seconds or 0)
        if grace_seconds > allowed + 0.01:
            self._break(f"pod {pod.name} of {machine.node_name} is given {grace_seconds:.1f} s, and may have {allowed}")
        available = min(allowed - _lost_since_noted(machine, pod, elapsed), latest_end(PERIODS, group) - elapsed)
        if grace_seconds < available - _FIRST_SECONDS:
            self._break(f"pod {pod.name} of {machine.node_name} is given {grace_seconds:.1f} s of {available:.1f}")
        needs_all = allowed == PERIODS[group].seconds
        well_since = self._environment.well_since(f"agent-{machine.node_name}")
        is_well = well_since is not None and well_since <= shutdown.heard_at
        if needs_all and is_well and not shutdown.asked and not group and elapsed > _FIRST_SECONDS:
            self._break(f"pod {pod.name} of {machine.node_name} is asked to end after {elapsed:.1f} s of its time")
        shutdown.asked[pod.uid] = _Asked(now, group, now + allowed)
        sandbox = machine.kubelet.runtime.get(pod.uid)
        if sandbox is None:
            return
        ran_for = (self._environment.clock.now() - sandbox.started).total_seconds()
        for other in shutdown.asked.values():
            if other.group > group and now - ran_for < other.at < now - _ORDER_SECONDS:
                self._break(f"pod {pod.name} of {machine.node_name} is ended after one of higher priority")

    def started(self, machine: SimMachine, name: str) -> None:
        """The kubelet starts containers."""
        shutdown = self._of(machine)
        if shutdown is not None and shutdown.asked:
            self._break(f"pod {name} is started on {machine.node_name}, whose pods are being ended")

    def released(self, machine: SimMachine) -> None:
        """An agent lets the machine go: what it knows is stored by now, in the API or on the disk."""
        shutdown = self._of(machine)
        if shutdown is None:
            return
        self._environment.counts["machines let go"] += 1
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
                    f"{machine.node_name} is let go, and neither API nor disk knows how {sandbox.pod.name} {how}"
                )

    def forgotten(self, machine: SimMachine) -> None:
        """An agent has wound a shutdown up: every pod it asked to end is finished, gone, or runs again."""
        self._of(machine)
        shutdown = self._last.pop(machine.node_name, None)
        if shutdown is None or machine.is_disk_full or not shutdown.is_on_disk:
            return
        for uid in shutdown.asked:
            sandbox = machine.kubelet.runtime.get(uid)
            runs_again = sandbox is not None and not sandbox.has_ended(self._environment.clock.now())
            if not runs_again and not _is_for_the_kubelet(machine, sandbox) and not self._is_accounted_for(uid):
                self._break(f"the shutdown of {machine.node_name} is over, and the API never knew how {uid} ended")

    def _is_accounted_for(self, uid: str) -> bool:
        """Whether the API shows its end, or has no such pod any more."""
        found = next((pod for pod in self._commits.of(PODS).values() if pod["metadata"]["uid"] == uid), None)
        return found is None or _finished(found)

    def _check_duties(self, machine: SimMachine, shutdown: _Shutdown) -> None:
        """No machine is let go early with pods that run; and by then its node says so, if its agent could tell."""
        now, elapsed = self._environment.clock.now(), self._environment.loop.time() - shutdown.heard_at
        left = sorted(sandbox.pod.name for sandbox in machine.kubelet.runtime if not sandbox.has_ended(now))
        if left and elapsed < _BUDGET_SECONDS - _SLACK_SECONDS:
            self._break(f"{machine.node_name} is let go after {elapsed:.1f} s, and {left} run")
        well_since = self._environment.well_since(f"agent-{machine.node_name}")
        node = self._commits.of(NODES).get(machine.node_name)
        is_known = node is not None and node["metadata"]["uid"] == shutdown.first_uid
        now_seconds = self._environment.loop.time()
        could_tell = well_since is not None and now_seconds - max(well_since, shutdown.heard_at) >= _TELLING_SECONDS
        if node is not None and is_known and could_tell and not (_reason(node) in _STATES and _is_tainted(node)):
            self._break(f"{machine.node_name} is let go after {elapsed:.1f} s, and its node never said so")

    def _of(self, machine: SimMachine) -> _Shutdown | None:
        """The shutdown under way, if one is."""
        current = self._current.get(machine.node_name)
        if current is not None and (not machine.preparing or current.heard_at < machine.down_since):
            self._last[machine.node_name] = self._current.pop(machine.node_name)
            return None
        return current

    @property
    def is_over(self) -> bool:
        """Whether every machine is up, and its node says so."""
        return not self._still_down()

    def at_end(self) -> None:
        """Liveness: with everybody well, nothing is left of a shutdown."""
        for what in self._still_down():
            raise Violation("liveness", what)

    def _still_down(self) -> list[str]:
        left = []
        for name, machine in self._machines.items():
            node = self._commits.of(NODES).get(name)
            if machine.preparing or not machine.is_on or not machine.kubelet.is_running:
                left.append(f"the machine of {name} does not come up")
            elif node is not None and (_reason(node) in _STATES or _is_tainted(node)):
                left.append(f"node {name} says that it is going down, and is not")
        return left

    # ---- seen on the disk

    def _committed(self, commit: Commit) -> None:
        if commit.table != NODES or commit.after is None or commit.key not in self._machines:
            return
        machine = self._machines[commit.key]
        shutdown = self._of(machine)
        if shutdown is None:
            return
        state, uid = _reason(commit.after), commit.after["metadata"]["uid"]
        if shutdown.node_uid != uid:
            # What is left of an earlier shutdown is not said of this one.
            if state not in _STATES or _said(commit.after) == _said(commit.before):
                return
            shutdown.node_uid, shutdown.state, shutdown.is_tainted = uid, state, False
        if state not in _STATES or (state, shutdown.state) == _STATES:
            raise Violation("10", f"node {commit.key} says {state!r} after {shutdown.state!r}, and is going down")
        shutdown.state = state
        tainted = _is_tainted(commit.after)
        if shutdown.is_tainted and not tainted:
            raise Violation("10", f"node {commit.key} takes pods again, and is going down")
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
            raise Violation("10", f"node {commit.key} says that it is ready, and is going down")

    def _break(self, what: str) -> None:
        self._environment.violate(Violation("10", what))


def _is_for_the_kubelet(machine: SimMachine, sandbox: Sandbox | None) -> bool:
    """Whether a pod outlived the shutdown that asked it to end: it was called off, and the kubelet is at work again."""
    ended, called_off = None if sandbox is None else sandbox.ends_at, machine.called_off_at
    return ended is not None and called_off is not None and ended > called_off


def _lost_since_noted(machine: SimMachine, pod: RunningPod, elapsed: float) -> float:
    """The seconds since the disk says that a pod was asked to end: an agent may die before the runtime hears of it.

    The next one cannot know that, and gives no time twice.
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
    """Which state a node shows, and since when."""
    for one in () if node is None else node.get("status", {}).get("conditions", ()):
        if one["type"] == CONDITION_LIFECYCLE_TRANSITION:
            return str(one.get("reason")), str(one.get("lastTransitionTime"))
    return "", ""


def _is_tainted(node: dict[str, Any]) -> bool:
    return any(taint["key"] == TAINT.key for taint in node.get("spec", {}).get("taints", ()))


def _finished(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
