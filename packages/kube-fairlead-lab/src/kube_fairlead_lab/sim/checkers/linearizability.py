"""The API server is linearizable, and a watch delivers all changes in commit order.

A checker without access to the server has to search for an order that explains the answers. This one knows the commit
order, so it checks each answer when it arrives.

1. An answer includes every change that a client had seen before the request was sent: no read, list or rejection is
stale. 2. A revision in an answer or event is one at which that object was written. 3. A watch skips no commit that it
selects, and an event has the type of its commit. 4. At the end every open watch has delivered everything.
"""

from __future__ import annotations

import bisect
import re
import urllib.parse
from typing import Any, Final

from kube_fairlead.client.transport import Request, Response
from kube_fairlead_lab.sim.commits import Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Linearizability"]

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_PATH: Final = re.compile(
    r"^/apis?(?:/([^/]+\.[^/]+))?/v[^/]+(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?(/[a-z]+)?$"
)

# By these an object is always selected, or never.
_UNCHANGING: Final = frozenset({"", "metadata.name", "spec.bindingNode"})
_TELLING_SECONDS: Final = 5.0


class Linearizability:
    """Checks every answer and every watch event that reaches a client."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        environment.network.on_answer.append(self._answered)
        environment.network.on_watch.append(self._received)

    def at_end(self) -> None:
        """Check that every open watch has delivered all changes."""
        before = self._environment.loop.time() - _TELLING_SECONDS
        for request, state in self._environment.network.open_watches():
            watch = state if isinstance(state, _Watch) else _Watch(self._commits, request)
            if missed := watch.missed(before):
                raise Violation(
                    "linearizability", f"the watch {request} never delivered {missed.revision} of {missed.key}"
                )

    def _answered(self, party: str, request: Request, response: Response, seen: int) -> None:
        place = _place(request)
        if place is None or not self._commits.is_kept(place[0]) or dict(request.query).get("resourceVersion"):
            return
        table, key, subresource, _ = place
        if response.status == 404 and key and request.method == "GET":
            if self._was_always_there(table, key, seen):
                self._break(f"{party} got NotFound for {table} {key}, which existed")
        elif response.status < 300 and request.method != "DELETE" and subresource in {"", "/status"}:
            found = _REVISION.search(response.body)
            if found is None:
                return
            revision = int(found[1])
            self._environment.network.newest_seen = max(self._environment.network.newest_seen, revision)
            if not key:
                if revision < seen or (revision == seen and request.method == "POST"):
                    self._break(
                        f"{party} got an answer to {request} at revision {revision}, but {seen} was already seen"
                    )
            else:
                self._check_object(party, request, (table, key), revision, seen)

    def _check_object(self, party: str, request: Request, place: tuple[str, str], revision: int, seen: int) -> None:
        commits = self._commits.of_object(*place)
        if not any(commit.revision == revision for commit in reversed(commits)):
            self._break(f"{party} got an answer to {request} at revision {revision}, which is not of that object")
        later = next((commit.revision for commit in commits if commit.revision > revision), None)
        if later is not None and later <= seen:
            self._break(f"{party} got an answer to {request} at revision {revision}, but {later} was already seen")

    def _was_always_there(self, table: str, key: str, seen: int) -> bool:
        commits = self._commits.of_object(table, key)
        if any(commit.after is None and commit.revision > seen for commit in commits):
            return False
        known = [commit for commit in commits if commit.revision <= seen]
        return bool(known) and known[-1].after is not None

    def _received(self, watch: _Watch | None, request: Request, chunk: bytes) -> _Watch:
        watch = watch or _Watch(self._commits, request)
        for line in chunk.splitlines():
            problem = watch.check(line)
            if problem:
                self._break(f"the watch {request} {problem}")
        self._environment.network.newest_seen = max(self._environment.network.newest_seen, watch.last)
        return watch

    def _break(self, what: str) -> None:
        self._environment.violate(Violation("linearizability", what))


class _Watch:
    """One watch: its selection, and the revision that it has delivered."""

    def __init__(self, commits: Commits, request: Request) -> None:
        query = dict(request.query)
        place = _place(request)
        since = query.get("resourceVersion", "")
        self.last = 0
        self._is_checked = (
            place is not None and commits.is_kept(place[0]) and since not in {"", "0"} and "labelSelector" not in query
        )
        if place is None or not self._is_checked:
            return
        self.last = int(since)
        self._commits = commits.in_order(place[0])
        # Skip the commits before its start.
        self._at = bisect.bisect_right(self._commits, self.last, key=lambda commit: commit.revision)
        self._namespace = place[3]
        self._field, _, self._value = query.get("fieldSelector", "").partition("=")

    def check(self, line: bytes) -> str:
        """Return the problem of the next line that it delivers, or an empty string."""
        found = _REVISION.search(line)
        if not self._is_checked or found is None or line.startswith(b'{"type":"ERROR"'):
            return ""
        revision, before = int(found[1]), self.last
        is_bookmark = line.startswith(b'{"type":"BOOKMARK"')
        if revision < before or (revision == before and not is_bookmark):
            return f"delivers {revision} after {before}"
        self.last = revision
        while self._at < len(self._commits) and self._commits[self._at].revision <= revision:
            commit = self._commits[self._at]
            self._at += 1
            if commit.revision > before and commit.revision < revision + is_bookmark and self._selects(commit):
                return f"delivers {revision} after {before} and skips {commit.revision} of {commit.key}"
            if commit.revision == revision and not is_bookmark and self._field in _UNCHANGING:
                kind = "DELETED" if commit.after is None else "ADDED" if commit.before is None else "MODIFIED"
                if not line.startswith(b'{"type":"%s"' % kind.encode()):
                    return f"delivers {revision} of {commit.key} as {line[:20].decode()} instead of {kind}"
        return ""

    def missed(self, before: float) -> Commit | None:
        """Return a commit before this time that it has not delivered."""
        if not self._is_checked:
            return None
        later = self._commits[self._at :]
        return next((one for one in later if one.revision > self.last and one.at < before and self._selects(one)), None)

    def _selects(self, commit: Commit) -> bool:
        if self._namespace and not commit.key.startswith(f"{self._namespace}/"):
            return False
        if self._field == "metadata.name":
            return commit.key.rpartition("/")[2] == self._value
        if self._field:
            return any(_value(one, self._field) == self._value for one in (commit.before, commit.after) if one)
        return True


def _value(item: dict[str, Any], field: str) -> object:
    found: Any = item
    for part in field.split("."):
        found = found.get(part, {})
    return found


def _place(request: Request) -> tuple[str, str, str, str] | None:
    """Return the table, the key (empty for a collection), the subresource and the namespace of a request."""
    found = _PATH.match(urllib.parse.unquote(request.path))
    if found is None:
        return None
    group, namespace, plural, name, subresource = (part or "" for part in found.groups())
    table = f"{plural}.{group}" if group else plural
    return table, f"{namespace}/{name}" if namespace and name else name, subresource, namespace
