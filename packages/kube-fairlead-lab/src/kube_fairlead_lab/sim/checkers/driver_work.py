"""A Succeeded event was carried out by its driver from start to end, and no work continues after it."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL, ClaimStatus
from kube_fairlead.api.reserved import NODE_SHUTDOWN
from kube_fairlead.driverapi.messages import Progress, Reached, Work
from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment, Violation
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.loop import Process, current_process

__all__ = ["DriverWork"]

_GONE_SECONDS: Final = 5.0  # a cancelled call has ended after this time


@dataclasses.dataclass(slots=True)
class _Call:
    """A running call to a driver."""

    work: Work
    is_end: bool
    caller: Process
    driver: Process
    link: Link


class DriverWork:
    """Compares what drivers did with the stored events."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._reached: dict[str, set[str]] = {}  # states by event uid, as the driver reached them
        self._running: dict[int, _Call] = {}
        self._ended_at: dict[str, float] = {}  # by event uid
        self._number = 0
        self._answered: dict[str, Progress | None] = {}  # by event uid: the last progress before the end
        commits.listeners.append(self._committed)

    def begun(self, work: Work, *, is_end: bool, caller: Process, link: Link) -> int:
        """A call begins, in the current process; returns its number."""
        if is_end and work.start not in self._reached.get(work.event_uid, ()):
            self._break(f"the driver is called to end {work.event_name}, which it has not started")
        self._number += 1
        self._running[self._number] = _Call(work, is_end, caller, current_process(), link)
        return self._number

    def over(self, number: int, reached: object = None) -> None:
        """A call has ended, was cancelled, or its driver died."""
        call = self._running.pop(number, None)
        if call is not None and isinstance(reached, Reached):
            self._reached.setdefault(call.work.event_uid, set()).add(call.work.end if call.is_end else call.work.start)

    def answered(self, work: Work, progress: Progress | None) -> None:
        """A claimant has received the end, with this progress before it."""
        self._answered[work.event_uid] = progress

    def _look(self, uid: str) -> None:
        """Check that no driver works on a finished event, if its caller could know of the end."""
        ended = self._ended_at[uid]
        for call in self._running.values():
            well_since = self._environment.well_since(call.caller.name.partition("#")[0])
            is_well = call.caller.is_alive and well_since is not None and well_since <= ended
            is_heard = not call.link.is_cut and call.link.well_since <= ended
            if call.work.event_uid == uid and is_well and is_heard and not call.driver.is_paused:
                self._break(f"a driver still works on {call.work.event_name}, which ended at {ended:.1f} s")

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS:
            return
        event = commit.after or commit.before or {}
        uid = event["metadata"]["uid"]
        now = None if commit.after is None else claim_status(commit.after)
        if now is None or now in TERMINAL:
            self._over(uid)
        was = None if commit.before is None else claim_status(commit.before)
        if now is ClaimStatus.SUCCEEDED and was is not now and event["spec"]["transitionName"] != NODE_SHUTDOWN.name:
            frozen = event["status"]["transition"]
            missing = {frozen["start"], frozen["end"]} - self._reached.get(uid, set())
            if missing:
                raise Violation(
                    "driver work", f"{commit.key} succeeded, but its driver never reached {sorted(missing)}"
                )
            self._check_progress(commit.key, event)

    def _check_progress(self, name: str, event: dict[str, Any]) -> None:
        """Check that the last progress of the driver is stored in the event."""
        answered, stored = self._answered.get(event["metadata"]["uid"]), event["status"].get("progress", {})
        if answered is not None and (answered.done, answered.total) != (stored.get("done", 0), stored.get("total", 0)):
            raise Violation(
                "driver work", f"{name} succeeded at {answered.done} of {answered.total}, but its progress is {stored}"
            )

    def _over(self, uid: str) -> None:
        if uid not in self._ended_at:
            loop = self._environment.loop
            self._ended_at[uid] = loop.time()
            loop.call_later(_GONE_SECONDS, self._look, uid, context=loop.harness.context)

    def _break(self, what: str) -> None:
        self._environment.violate(Violation("driver work", what))
