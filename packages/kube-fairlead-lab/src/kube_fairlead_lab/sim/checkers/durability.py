"""Durability: what the server has acknowledged to a client is on the disk."""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead.client.transport import Request, Response
from kube_fairlead_apiserver.storage.interface import Row
from kube_fairlead_apiserver.storage.store import Store
from kube_fairlead_lab.sim.commits import Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Durability"]

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})


class Durability:
    """Checks every answer that reaches a client, and the store of each server process when it opens."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        environment.network.on_answer.append(self._answered)

    def opened(self, store: Store) -> None:
        """Check that the server starts with exactly the durable objects."""
        newest: dict[tuple[str, str], Row] = {(row.table, row.key): row for row in self._environment.disk.load()[1]}
        for (table, key), row in newest.items():
            entry = store.newest(table, key)
            if (row.value is None) != (entry is None) or (entry is not None and entry.revision != row.revision):
                known = None if entry is None else entry.revision
                what = f"the server starts with {table} {key} at {known}, but the disk has {row.revision}"
                self._environment.violate(Violation("durability", what))

    def _answered(self, party: str, request: Request, response: Response, _seen: int) -> None:
        if request.method not in _WRITES or response.status >= 300:
            return
        found = _REVISION.search(response.body)
        if found is not None and int(found[1]) not in self._commits.revisions:
            what = f"{party} got {request} acknowledged at revision {found[1].decode()}, which no disk has"
            self._environment.violate(Violation("durability", what))
