"""Nothing acknowledged is lost: whatever a client was told is stored, is stored."""

from __future__ import annotations

import re
from typing import Final

from fairlead.client.transport import Request, Response
from fairlead.sim.commits import Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Acknowledged"]

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_DISK_FULL: Final = "the write was not stored"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})


class Acknowledged:
    """Hears of every answer that reached a client."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits
        stage.network.on_answer.append(self._answered)
        stage.network.on_failure.append(self._failed)

    def _failed(self, request: Request, why: str) -> None:
        """A server that fails by itself has a bug; one without room on its disk does not."""
        if _DISK_FULL not in why:
            self._stage.violate(Violation("no crash", f"the server failed at {request}: {why}"))

    def _answered(self, party: str, request: Request, response: Response, _seen: int) -> None:
        if request.method not in _WRITES or response.status >= 300:
            return
        found = _REVISION.search(response.body)
        if found is not None and int(found[1]) not in self._commits.revisions:
            what = f"{party} was told that {request} is stored at revision {found[1].decode()}, and no disk has it"
            self._stage.violate(Violation("acknowledged", what))
