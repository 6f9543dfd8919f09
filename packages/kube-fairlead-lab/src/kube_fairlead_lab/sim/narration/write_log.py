"""Records every durable change and every write request, for a description after the run."""

from __future__ import annotations

import dataclasses

from kube_fairlead_apiserver.app import Observer
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.commits import Commit, Commits
from kube_fairlead_lab.sim.trace import Trace

__all__ = ["Rejection", "Write", "WriteLog"]

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclasses.dataclass(slots=True, eq=False)
class Write:
    """A write request, from its arrival at the server to its answer."""

    party: str
    info: RequestInfo
    response: Response | None = None  # None: the server died before the answer
    ended: int = -1  # number of facts at its end


@dataclasses.dataclass(frozen=True, slots=True)
class Rejection:
    """The server rejected a request."""

    write: Write


class WriteLog(Observer):
    """Sees requests as the audit log does, and commits as the disk does, before any checker."""

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
        """Not used: the request has its user."""

    def end(self, token: object, response: Response) -> Response:
        """A request is answered."""
        if isinstance(token, Write):
            token.response, token.ended = response, len(self._trace.facts)
            if response.status >= 400:
                self._trace.keep(Rejection(token))
        return response
