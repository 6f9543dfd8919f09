"""No eviction is granted that a disruption budget forbids, as far as the server could know."""

from __future__ import annotations

from typing import Any, Final

from fairlead.apiserver.app import Observer
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.routing import RequestInfo
from fairlead.sim.commits import PODS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Budgets"]

# A budget's status follows its pods; that of a server that has just begun, or whose disk is slow, is behind for long.
_FOLLOWS_SECONDS: Final = 2.0
_BEHIND_SECONDS: Final = 15.0


class Budgets(Observer):
    """Knows which pods of `db` are healthy: of two, one may be missing."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits
        self._lost_at: dict[str, float] = {}  # by the pod's name: since when it is not healthy
        commits.listeners.append(self._committed)

    def begin(self, request: Request, info: RequestInfo) -> object:
        """The healthy pod that somebody asks to evict."""
        del request
        if info.resource != PODS or info.subresource != "eviction":
            return None
        pod = self._commits.of(PODS).get(f"{info.namespace}/{info.name}")
        return pod if pod is not None and _is_covered(pod) and _is_healthy(pod) else None

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Whoever it is."""

    def end(self, token: object, response: Response) -> Response:
        """Judge what was granted."""
        if isinstance(token, dict) and response.status < 300:
            self._stage.counts["evictions within a budget"] += 1
            self._judge(token["metadata"]["name"])
        return response

    def _judge(self, evicted: str) -> None:
        server, disk, now = self._stage.actors["apiserver"], self._stage.disk, self._stage.loop.time()
        if disk.slowness > 1.0 or now - max(server.disturbed_at, disk.well_since) < _BEHIND_SECONDS:
            return
        others = [pod for pod in self._commits.of(PODS).values() if _is_covered(pod)]
        are_left = any(_is_healthy(pod) for pod in others if pod["metadata"]["name"] != evicted)
        known = [at for name, at in self._lost_at.items() if name != evicted]
        if not are_left and all(now - at > _FOLLOWS_SECONDS for at in known):
            self._stage.violate(
                Violation("budgets", f"pod {evicted} is evicted, and no other of its budget is healthy")
            )

    def _committed(self, commit: Commit) -> None:
        if commit.table == PODS and commit.before is not None and _is_covered(commit.before):
            is_healthy = commit.after is not None and _is_healthy(commit.after)
            if _is_healthy(commit.before) and not is_healthy:
                self._lost_at[commit.before["metadata"]["name"]] = self._stage.loop.time()


def _is_covered(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("app") == "db")


def _is_healthy(pod: dict[str, Any]) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
