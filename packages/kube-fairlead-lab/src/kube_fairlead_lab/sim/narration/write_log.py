"""Keeps every durable change, and who asked for it: facts only, for the words that may be wanted afterwards."""

from __future__ import annotations

import dataclasses

from kube_fairlead_apiserver.app import Observer
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.commits import Commit, Commits
from kube_fairlead_lab.sim.trace import Trace

__all__ = ["Refusal", "Write", "WriteLog"]

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclasses.dataclass(slots=True, eq=False)
class Write:
    """A request that may change something, from its arrival at the server to its answer."""

    party: str
    info: RequestInfo
    response: Response | None = None  # None: the server died over it
    ended: int = -1  # how many facts there were by then


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """The server said no."""

    write: Write


class WriteLog(Observer):
    """Sees requests as the audit log does, and commits as the disk does. It must hear of a commit before any check."""

    def __init__(self, trace: Trace, commits: Commits) -> None:
        self._trace = trace
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        self._trace.keep(commit)

    def begin(self, request: Request, info: RequestInfo) -> object:
        """A request has arrived."""
        if info.verb not in _WRITES or not info.is_resource:
            return None
        write = Write("" if request.trusted_user is None else request.trusted_user.name, info)
        self._trace.keep(write)
        return write

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Known already."""

    def end(self, token: object, response: Response) -> Response:
        """It is answered."""
        if isinstance(token, Write):
            token.response, token.ended = response, len(self._trace.facts)
            if response.status >= 400:
                self._trace.keep(Refusal(token))
        return response
