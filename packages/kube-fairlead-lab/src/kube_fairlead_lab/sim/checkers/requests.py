"""What the API server grants: the common part of those who check requests, and not what is on the disk."""

from __future__ import annotations

from typing import Generic, TypeVar

from kube_fairlead_apiserver.app import Observer
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.routing import RequestInfo

__all__ = ["GrantedRequests"]

_T = TypeVar("_T")


class GrantedRequests(Observer, Generic[_T]):
    """Sees requests as the audit log does: who asks for what, and then whether it was granted."""

    def asked(self, who: str, info: RequestInfo) -> _T | None:
        """What matters of a request that has arrived, as things are now; None: it is none of ours."""
        raise NotImplementedError

    def granted(self, what: _T) -> None:
        """The server has done it."""
        raise NotImplementedError

    def begin(self, request: Request, info: RequestInfo) -> object:
        """A request has arrived."""
        user = request.trusted_user
        return None if user is None else self.asked(user.name, info)

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """The network has said who it is."""

    def end(self, token: object, response: Response) -> Response:
        """It is answered."""
        if token is not None and response.status < 300:
            self.granted(token)  # type: ignore[arg-type]  # what `asked` has returned
        return response
