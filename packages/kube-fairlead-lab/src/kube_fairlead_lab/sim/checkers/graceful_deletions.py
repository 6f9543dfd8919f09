"""Invariant 9: a deletion deadline only moves earlier, and an object without finalizers is removed."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import msgspec

from kube_fairlead.api.time import parse_time
from kube_fairlead.client.transport import Request, Response
from kube_fairlead_lab.sim.commits import THINGS, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["GracefulDeletions"]

_SLACK_SECONDS: Final = 2.0


class GracefulDeletions:
    """Checks custom resources that are deleted with a grace period."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._plain: set[str] = set()  # deleted without a grace period: a later one has no effect
        commits.listeners.append(self._committed)
        environment.network.on_request.append(self._sent)
        environment.network.on_answer.append(self._answered)

    def _sent(self, _party: str, request: Request) -> None:
        if request.method == "DELETE" and _asked(request) is None:
            self._plain.add(request.path)

    def _answered(self, party: str, request: Request, response: Response, _seen: int) -> None:
        """Check that a deletion gets its grace period, unless it was shorter before."""
        if request.method != "DELETE" or "/things/" not in request.path or response.status >= 300:
            return
        asked = _asked(request)
        metadata = msgspec.json.decode(response.body).get("metadata", {})
        if asked is None or "deletionTimestamp" not in metadata:
            return
        given, clock = metadata.get("deletionGracePeriodSeconds"), self._environment.actors["apiserver"].clock
        latest = clock.now() + dt.timedelta(seconds=asked + _SLACK_SECONDS)
        is_late = given is not None and clock.is_about_right and parse_time(metadata["deletionTimestamp"]) > latest
        if is_late or (given is None and request.path not in self._plain):
            what = f"{party} deleted {metadata['name']} with a grace period of {asked} s, but it has {given} s"
            self._environment.violate(Violation("9", what))

    def _committed(self, commit: Commit) -> None:
        if commit.after is None and commit.before is not None:
            # A deleted object is removed with its last finalizer, and never before.
            held = commit.before["metadata"].get("finalizers")
            if held and _deadline(commit.before) is None:
                raise Violation("9", f"{commit.key} is removed although it had the finalizers {held}")
        if commit.table != THINGS or commit.after is None:
            return
        before, after = _deadline(commit.before), _deadline(commit.after)
        if before is not None and (after is None or after > before):
            raise Violation("9", f"the deadline of {commit.key} moved from {before} to {after}")
        if after is not None and not commit.after["metadata"].get("finalizers"):
            raise Violation("9", f"{commit.key} has no finalizer left but still exists")
        if after is not None and before is None:
            self._environment.counts["graceful deletions"] += 1


def _asked(request: Request) -> int | None:
    asked: int | None = msgspec.json.decode(request.body).get("gracePeriodSeconds") if request.body else None
    return asked


def _deadline(thing: dict[str, Any] | None) -> str | None:
    return None if thing is None else thing["metadata"].get("deletionTimestamp")
