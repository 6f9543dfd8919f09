"""Every event finishes and is deleted once all faults have ended. Also counts the results."""

from __future__ import annotations

from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL
from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Liveness"]


class Liveness:
    """Follows events from creation to deletion."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS:
            return
        was = None if commit.before is None else claim_status(commit.before)
        now = None if commit.after is None else claim_status(commit.after)
        if was is not now:
            self._environment.counts[f"{was or 'new'} -> {now or 'gone'}"] += 1
        if now in TERMINAL and was not in TERMINAL:
            self._environment.counts["finished events"] += 1

    @property
    def is_over(self) -> bool:
        """Whether no event is left."""
        return not self._commits.of(EVENTS)

    def at_end(self) -> None:
        """Check that every event is deleted."""
        for key, event in self._commits.of(EVENTS).items():
            what = f"event {key} still exists, {claim_status(event)}: {event.get('status', {})}"
            raise Violation("liveness", what)
