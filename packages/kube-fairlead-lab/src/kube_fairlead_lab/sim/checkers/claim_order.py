"""Events of one node are claimed in the order of their creation, also within one second."""

from __future__ import annotations

from typing import Any

from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits
from kube_fairlead_lab.sim.environment import Violation

__all__ = ["ClaimOrder"]


class ClaimOrder:
    """Records at which revision each event was created.

    Only events of the same transition are compared, because they become claimable together. The order between different
    seconds depends on the server's clock, which can jump.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._created: dict[str, int] = {}  # revision by uid
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.after is None:
            return
        uid = commit.after["metadata"]["uid"]
        self._created.setdefault(uid, commit.revision)
        if not _is_claimed(commit.after) or (commit.before is not None and _is_claimed(commit.before)):
            return
        for name, other in self._commits.of(EVENTS).items():
            is_waiting = not other.get("status", {}).get("claimedBy") and "deletionTimestamp" not in other["metadata"]
            is_earlier = self._created[other["metadata"]["uid"]] < self._created[uid]
            if is_waiting and is_earlier and _kind(other) == _kind(commit.after) and not _is_over(other):
                raise Violation("claim order", f"event {commit.key} is claimed before the older event {name}")


def _kind(event: dict[str, Any]) -> tuple[str, str, str]:
    spec, created = event["spec"], event["metadata"]["creationTimestamp"]
    return spec["bindingNode"], spec["transitionName"], created


def _is_claimed(event: dict[str, Any]) -> bool:
    return bool(event.get("status", {}).get("claimStatus") == "Claimed")


def _is_over(event: dict[str, Any]) -> bool:
    return "completionTime" in event.get("status", {})
