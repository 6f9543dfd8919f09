"""The base of checkers that check accepted requests instead of durable changes."""

from __future__ import annotations

from typing import Generic, TypeVar

from kube_fairlead_apiserver.app import Observer
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.routing import RequestInfo

__all__ = ["GrantedRequests"]

_T = TypeVar("_T")


class GrantedRequests(Observer, Generic[_T]):
    """Sees requests as the audit log does: the user, the request, and whether it was accepted."""

    def asked(self, who: str, info: RequestInfo) -> _T | None:
        """What to check of a request that has arrived; None if there is nothing."""
        raise NotImplementedError

    def granted(self, what: _T) -> None:
        """Check a request that was accepted."""
        raise NotImplementedError

    def begin(self, request: Request, info: RequestInfo) -> object:
        """A request has arrived."""
        user = request.trusted_user
        return None if user is None else self.asked(user.name, info)

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Not used: the request has its user."""

    def end(self, token: object, response: Response) -> Response:
        """A request is answered."""
        if token is not None and response.status < 300:
            self.granted(token)  # type: ignore[arg-type]  # the result of `asked`
        return response
