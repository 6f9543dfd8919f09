"""The server accepts no eviction that a disruption budget forbids."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.checkers.requests import GrantedRequests
from kube_fairlead_lab.sim.commits import PODS, Commit, Commits, is_ready
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Budgets"]

# A budget's status lags behind its pods, longer after a start of the server or with a slow disk.
_FOLLOWS_SECONDS: Final = 2.0
_BEHIND_SECONDS: Final = 15.0


class Budgets(GrantedRequests[str]):
    """Records which pods of `db` are healthy: of two, one may be missing."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._lost_at: dict[str, float] = {}  # by pod: since when it is not healthy
        commits.listeners.append(self._committed)

    def asked(self, who: str, info: RequestInfo) -> str | None:
        """Return the healthy pod of a request to evict."""
        del who
        if info.resource != PODS or info.subresource != "eviction":
            return None
        pod = self._commits.of(PODS).get(f"{info.namespace}/{info.name}")
        return info.name if pod is not None and _is_covered(pod) and _is_healthy(pod) else None

    def granted(self, what: str) -> None:
        """Check that another pod is healthy."""
        self._environment.counts["evictions within a budget"] += 1
        server, disk, now = self._environment.actors["apiserver"], self._environment.disk, self._environment.loop.time()
        if disk.slowness > 1.0 or now - max(server.disturbed_at, disk.well_since) < _BEHIND_SECONDS:
            return
        others = [pod for pod in self._commits.of(PODS).values() if _is_covered(pod)]
        are_left = any(_is_healthy(pod) for pod in others if pod["metadata"]["name"] != what)
        known = [at for name, at in self._lost_at.items() if name != what]
        if not are_left and all(now - at > _FOLLOWS_SECONDS for at in known):
            self._environment.violate(
                Violation("budgets", f"pod {what} is evicted while no other pod of its budget is healthy")
            )

    def _committed(self, commit: Commit) -> None:
        if commit.table == PODS and commit.before is not None and _is_covered(commit.before):
            is_healthy = commit.after is not None and _is_healthy(commit.after)
            if _is_healthy(commit.before) and not is_healthy:
                self._lost_at[commit.before["metadata"]["name"]] = self._environment.loop.time()


def _is_covered(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("app") == "db")


def _is_healthy(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
