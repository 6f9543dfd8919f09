"""Invariant 7: never two leaders at once among running processes; a Lease is released after the last task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from kube_fairlead.manager import Manager
from kube_fairlead_lab.sim.commits import LEASES, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation
from kube_fairlead_lab.sim.loop import Process

__all__ = ["Leaders"]

_AUDIT_SECONDS: Final = 0.5
_NOTICE_SECONDS: Final = 3.0  # for a resumed process to see that its lease has expired, and stop


class Leaders:
    """Observes controllers and Leases."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._at_work: dict[str, dict[Process, int]] = {}
        self.managers: dict[str, Manager] = {}
        commits.listeners.append(self._committed)
        environment.on_death.append(self._died)

    @contextlib.contextmanager
    def at_work(self, lock: str, process: Process) -> Iterator[None]:
        """Record that a controller of this lock runs in this process."""
        working = self._at_work.setdefault(lock, {})
        working[process] = working.get(process, 0) + 1
        others = [other for other in working if other is not process and self._is_awake(other)]
        self._environment.trace.add(process.name, f"controllers of {lock} run")
        if others:
            self._environment.violate(
                Violation("7", f"{process.name} and {others[0].name} both run controllers of {lock}")
            )
        try:
            yield
        finally:
            if process.is_alive:
                working[process] -= 1
                if not working[process]:
                    del working[process]
                self._environment.trace.add(process.name, f"controllers of {lock} ended")

    def acts(self, lock: str, identity: str) -> None:
        """Check that a process that acts as the leader holds the Lease."""
        self._environment.counts["acts of leaders"] += 1
        holder = _holder(self._commits.of(LEASES).get(lock))
        if holder and holder != identity:
            self._environment.violate(Violation("7", f"{identity} acts as the leader of {lock}, which {holder} holds"))

    def leading(self) -> list[str]:
        """The names of processes whose controllers run now."""
        return sorted({process.name.partition("#")[0] for working in self._at_work.values() for process in working})

    async def audit(self) -> None:
        """Check periodically for two leaders. A process that was paused has a moment to stop."""
        while True:
            await self._environment.clock.sleep(_AUDIT_SECONDS)
            for lock, working in self._at_work.items():
                awake = [process for process in working if self._is_awake(process)]
                if len(awake) > 1:
                    what = f"{awake[0].name} and {awake[1].name} both run controllers of {lock}"
                    self._environment.violate(Violation("7", what))

    def _is_awake(self, process: Process) -> bool:
        slept = self._environment.loop.time() - process.woke_at < _NOTICE_SECONDS
        return process.is_alive and not process.is_paused and not slept

    def _died(self, process: Process) -> None:
        for working in self._at_work.values():
            working.pop(process, None)

    def _committed(self, commit: Commit) -> None:
        if commit.table != LEASES or not commit.key.startswith("kube-system/"):
            return
        was, now = _holder(commit.before), _holder(commit.after)
        if was == now:
            return
        self._environment.counts["handovers"] += 1
        if was and not now:
            # Only the holder releases a Lease.
            for process in self._at_work.get(commit.key, {}):
                if process.is_alive and was.startswith(_owner(process)):
                    raise Violation("7", f"{was} released {commit.key} while its controllers run")


def _holder(lease: dict[str, Any] | None) -> str:
    return "" if lease is None else str(lease.get("spec", {}).get("holderIdentity") or "")


def _owner(process: Process) -> str:
    name, _, number = process.name.partition("#")
    return f"{name}_{number}"
