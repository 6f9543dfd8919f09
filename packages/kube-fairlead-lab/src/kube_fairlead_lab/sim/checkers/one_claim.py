"""Invariant 1: at most one Claimed event per node, ever."""

from __future__ import annotations

from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits
from kube_fairlead_lab.sim.environment import Violation

__all__ = ["OneClaim"]


class OneClaim:
    """Records the Claimed event of each node."""

    def __init__(self, commits: Commits) -> None:
        self._claimed: dict[str, str] = {}  # node -> event
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS:
            return
        node = (commit.after or commit.before or {})["spec"]["bindingNode"]
        is_claimed = commit.after is not None and commit.after.get("status", {}).get("claimStatus") == "Claimed"
        other = self._claimed.get(node, commit.key)
        if is_claimed and other != commit.key:
            raise Violation("1", f"node {node} has two Claimed events, {other} and {commit.key}")
        if is_claimed:
            self._claimed[node] = commit.key
        elif other == commit.key:
            self._claimed.pop(node, None)
