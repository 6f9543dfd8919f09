"""Invariant 2: a terminal state never changes; the reason of a node's condition moves from start to end once."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, ClaimStatus
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead_lab.sim.commits import EVENTS, NODES, Commit, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["States"]

# What a shutdown says of its node is not said by the claim of an event: the `shutdowns` checker looks at it.
_SHUTDOWN: Final = frozenset({NODE_SHUTDOWN.start, NODE_SHUTDOWN.end})
# A terminal status that was sent before the shutdown was announced arrives by then. Event and node are two objects:
# no write of the one can wait for the other.
_IN_FLIGHT_SECONDS: Final = 5.0
# After a claim was removed by force, its claimant learns of it a moment later.
_MEDDLED_SECONDS: Final = 60.0


class States:
    """Checks each state change of an event, and each change of a condition against the node's claim."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._claimed: dict[str, dict[str, Any]] = {}  # node -> event
        self._ended: set[str] = set()  # uids of events whose end state was published
        self._replaced_at: dict[str, float] = {}  # uid -> when a shutdown replaced the end state of the event
        self._forced_at: dict[str, float] = {}  # node -> when
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table == EVENTS:
            self._follow(commit)
        elif commit.table == NODES and commit.after is not None:
            before, after = _reason(commit.before), _reason(commit.after)
            if after in _SHUTDOWN and commit.key in self._claimed:
                # The node loses both states of the claim, so its claimant publishes both again after the shutdown.
                uid = self._claimed[commit.key]["metadata"]["uid"]
                if uid in self._ended:
                    self._replaced_at[uid] = self._environment.loop.time()
                    self._ended.remove(uid)
            if before != after and after not in _SHUTDOWN and not (before in _SHUTDOWN and not after):
                self._check(commit.key, before, after)

    def _follow(self, commit: Commit) -> None:
        if commit.before is not None and commit.after is not None:
            was, now = claim_status(commit.before), claim_status(commit.after)
            if was is not now and now not in LEGAL_MOVES[was]:
                raise Violation("2", f"event {commit.key} changed from {was} to {now}")
            if was is not now and now is ClaimStatus.SUCCEEDED:
                self._check_said(commit.key, commit.after)
        event = commit.after or commit.before or {}
        node = event["spec"]["bindingNode"]
        if commit.after is not None and commit.after.get("status", {}).get("claimStatus") == "Claimed":
            self._claimed[node] = commit.after
        elif node in self._claimed and self._claimed[node]["metadata"]["uid"] == event["metadata"]["uid"]:
            del self._claimed[node]
            if commit.after is None:
                self._forced_at[node] = self._environment.loop.time()

    def _check_said(self, name: str, event: dict[str, Any]) -> None:
        """Check that a Succeeded event has published its end state on its node."""
        node, is_shutdown = event["spec"]["bindingNode"], event["spec"]["transitionName"] == NODE_SHUTDOWN.name
        uid, now = event["metadata"]["uid"], self._environment.loop.time()
        was_shown = uid in self._ended or now - self._replaced_at.get(uid, -_IN_FLIGHT_SECONDS) < _IN_FLIGHT_SECONDS
        if not was_shown and not is_shutdown and not self._was_forced(node):
            raise Violation("2", f"event {name} succeeded, but node {node} never showed its end state")

    def _was_forced(self, node: str) -> bool:
        return self._environment.loop.time() - self._forced_at.get(node, -_MEDDLED_SECONDS) < _MEDDLED_SECONDS

    def _check(self, node: str, before: str, after: str) -> None:
        if self._was_forced(node):
            return
        event = self._claimed.get(node)
        if event is None:
            raise Violation("2", f"node {node} shows {after!r} after {before!r} without a claim")
        frozen, uid, name = event["status"]["transition"], event["metadata"]["uid"], event["metadata"]["name"]
        self._environment.counts["condition moves"] += 1
        if after == frozen["start"] and uid not in self._ended:
            return
        if after == frozen["end"] and before == frozen["start"] and uid not in self._ended:
            self._ended.add(uid)
            return
        raise Violation("2", f"node {node} shows {after!r} after {before!r}, but {name} is claimed: {frozen}")


def _reason(node: dict[str, Any] | None) -> str:
    conditions = () if node is None else node.get("status", {}).get("conditions", ())
    return next((str(one.get("reason")) for one in conditions if one["type"] == CONDITION_LIFECYCLE_TRANSITION), "")
