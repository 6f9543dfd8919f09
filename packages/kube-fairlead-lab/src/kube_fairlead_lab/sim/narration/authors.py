"""Finds the author of a durable change among the requests that were open at that moment."""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead_lab.sim.commits import Commit
from kube_fairlead_lab.sim.narration.write_log import Write

__all__ = ["Authors"]

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_HUNG_UP: Final = 499
_LATE_SECONDS: Final = (
    5.0  # seconds after a client has closed the connection in which its request may still become durable
)
_SERVER: Final = "apiserver"


class Authors:
    """Tracks the open requests of one history, in order."""

    def __init__(self) -> None:
        self._open: list[tuple[float, Write]] = []

    def begun(self, at: float, write: Write) -> None:
        """A request has arrived."""
        self._open.append((at, write))

    def server_died(self) -> None:
        """The server has died: no open request can become durable any more."""
        self._open.clear()

    def of(self, commit: Commit, number: int) -> str:
        """Return the author of a commit; `number` is the position of its fact."""
        self._open = [(at, write) for at, write in self._open if _is_under_way(at, write, commit, number)]
        fitting = [write for _, write in self._open if _fits(write, commit)]
        certain = [write for write in fitting if _revision(write) == commit.revision]
        possible = (
            certain or [write for write in fitting if _may_be(write)] or [write for write in fitting if _failed(write)]
        )
        return " or ".join(dict.fromkeys(write.party for write in possible)) or _SERVER


def _is_under_way(at: float, write: Write, commit: Commit, number: int) -> bool:
    if write.response is not None and write.response.status == _HUNG_UP:
        return commit.at <= at + _LATE_SECONDS
    return write.ended < 0 or write.ended > number


def _fits(write: Write, commit: Commit) -> bool:
    info = write.info
    table = f"{info.resource}.{info.group}" if info.group else info.resource
    key = f"{info.namespace}/{info.name}" if info.namespace else info.name
    # A create request has no name in its path; the object has it in the body.
    is_made = not info.name and info.verb == "create" and commit.before is None and commit.key.startswith(key)
    return table == commit.table and (is_made or key == commit.key)


def _may_be(write: Write) -> bool:
    """Return whether the answer does not rule this commit out."""
    status = 200 if write.response is None else write.response.status
    return status == _HUNG_UP or (status < 400 and (write.info.verb == "delete" or _revision(write) is None))


def _failed(write: Write) -> bool:
    """Return whether the server failed, maybe after it had stored the change."""
    return write.response is not None and write.response.status >= 500


def _revision(write: Write) -> int | None:
    body = b"" if write.response is None else write.response.body
    text = body if isinstance(body, bytes) else b"".join(body) if isinstance(body, list) else b""
    found = _REVISION.search(text)
    return None if found is None else int(found[1])
