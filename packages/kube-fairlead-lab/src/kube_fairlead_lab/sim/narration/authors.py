"""Who is behind a durable change: the disk does not know, but the requests under way at that moment do."""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead_lab.sim.commits import Commit
from kube_fairlead_lab.sim.narration.write_log import Write

__all__ = ["Authors"]

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_HUNG_UP: Final = 499
_STILL_WRITTEN: Final = 5.0  # so many seconds after its client has hung up a request may still become durable
_SERVER: Final = "apiserver"


class Authors:
    """Follows the requests of one history, in order."""

    def __init__(self) -> None:
        self._open: list[tuple[float, Write]] = []

    def begun(self, at: float, write: Write) -> None:
        """A request has arrived."""
        self._open.append((at, write))

    def server_died(self) -> None:
        """Nothing that it was asked before can still happen."""
        self._open.clear()

    def of(self, commit: Commit, number: int) -> str:
        """Who asked for a commit, which is the fact of that number."""
        self._open = [(at, write) for at, write in self._open if _is_under_way(at, write, commit, number)]
        fitting = [write for _, write in self._open if _fits(write, commit)]
        certain = [write for write in fitting if _revision(write) == commit.revision]
        possible = (
            certain or [write for write in fitting if _may_be(write)] or [write for write in fitting if _failed(write)]
        )
        return " or ".join(dict.fromkeys(write.party for write in possible)) or _SERVER


def _is_under_way(at: float, write: Write, commit: Commit, number: int) -> bool:
    if write.response is not None and write.response.status == _HUNG_UP:
        return commit.at <= at + _STILL_WRITTEN
    return write.ended < 0 or write.ended > number


def _fits(write: Write, commit: Commit) -> bool:
    info = write.info
    table = f"{info.resource}.{info.group}" if info.group else info.resource
    key = f"{info.namespace}/{info.name}" if info.namespace else info.name
    # Who makes something names the place only; what is made has its name in the body.
    is_made = not info.name and info.verb == "create" and commit.before is None and commit.key.startswith(key)
    return table == commit.table and (is_made or key == commit.key)


def _may_be(write: Write) -> bool:
    """Whether an answer does not show that it was another change, or none."""
    status = 200 if write.response is None else write.response.status
    return status == _HUNG_UP or (status < 400 and (write.info.verb == "delete" or _revision(write) is None))


def _failed(write: Write) -> bool:
    """Whether the server failed at it, which may have been after it was stored."""
    return write.response is not None and write.response.status >= 500


def _revision(write: Write) -> int | None:
    body = b"" if write.response is None else write.response.body
    text = body if isinstance(body, bytes) else b"".join(body) if isinstance(body, list) else b""
    found = _REVISION.search(text)
    return None if found is None else int(found[1])
