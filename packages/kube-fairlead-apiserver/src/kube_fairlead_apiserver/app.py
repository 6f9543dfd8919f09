"""The request path: the steps of every request, in order.

The order is the list in `Application.__init__`. Each step may respond, reject by raising an API error, or pass the
request on.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/config.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/filters/cachecontrol.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.base import logs
from kube_fairlead.base.identity import Ids
from kube_fairlead_apiserver.attributes import ANONYMOUS, Attributes, UserInfo
from kube_fairlead_apiserver.dispatch import Dispatcher
from kube_fairlead_apiserver.flowcontrol.filter import FlowControl
from kube_fairlead_apiserver.http.messages import Request, Response, json_response, status_response
from kube_fairlead_apiserver.routing import RequestInfo, read_request
from kube_fairlead_apiserver.storage.interface import DiskFull
from kube_fairlead_apiserver.storage.store import StoreStopped

__all__ = ["Application", "Authenticator", "Authorizer", "Observer", "PathHandler"]

_log = logs.get_logger(__name__)

# Handles a request for a non-resource path: health, discovery, OpenAPI.
PathHandler = Callable[[Request, UserInfo], Awaitable[Response]]


_HUNG_UP = 499  # recorded when the client closed the connection before the response


class Authenticator(Protocol):
    """Authenticates requests."""

    def authenticate(self, request: Request) -> UserInfo:
        """Return the caller; raises Unauthorized for invalid credentials."""
        ...


class Authorizer(Protocol):
    """Authorizes requests."""

    def require(self, attributes: Attributes) -> None:
        """Raise Forbidden unless the request is allowed."""
        ...


class Observer(Protocol):
    """Observes every request and its response: metrics and the audit log."""

    def begin(self, request: Request, info: RequestInfo) -> object:
        """Note a new request; the returned token is passed to the later calls."""
        ...

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Note the authenticated caller; `user` differs from it only by impersonation."""
        ...

    def end(self, token: object, response: Response) -> Response:
        """Note that the response is ready; an observer may wrap a streamed body."""
        ...


class Application(msgspec.Struct):
    """The API server behind HTTP: one coroutine function from request to response."""

    dispatcher: Dispatcher
    authenticator: Authenticator
    authorizer: Authorizer
    paths: Mapping[str, PathHandler]
    prefixes: Mapping[str, PathHandler]
    ids: Ids
    flow: FlowControl
    # The user of the request: the caller, or the user that it impersonates.
    impersonate: Callable[[Request, UserInfo], UserInfo] = lambda _request, user: user
    observers: tuple[Observer, ...] = ()

    async def handle(self, request: Request) -> Response:
        """Handle one request. Raises only when it is cancelled."""
        if request.method == "OPTIONS" and request.path == "*":
            await self.flow.wait_turn(request)
            return Response(content_type="")  # OPTIONS *: needs no authorization
        request.audit_id = request.header("audit-id") or self.ids.uuid()
        try:
            info = read_request(request)
        except errors.ApiError as error:
            await self.flow.wait_turn(request)
            return status_response(error)
        tokens = [observer.begin(request, info) for observer in self.observers]
        try:
            response = await self._answer(request, info, tokens)
        except asyncio.CancelledError:
            # The client closed the connection. The request may have taken effect, so it is recorded all the same.
            for observer, token in zip(self.observers, tokens, strict=True):
                observer.end(token, Response(_HUNG_UP))
            raise
        try:
            response.headers += [("audit-id", request.audit_id), ("cache-control", "no-cache, private")]
            for observer, token in zip(self.observers, tokens, strict=True):
                response = observer.end(token, response)
        except BaseException:
            response.discard()
            response.sent()  # it never will be
            raise
        return response

    async def _answer(self, request: Request, info: RequestInfo, tokens: list[object]) -> Response:
        try:
            user, refusal = self._identify(request, tokens)
            return await self.flow.run(request, info, user, lambda: self._execute(request, info, user, refusal))
        except errors.ApiError as error:
            return status_response(error)
        except StoreStopped:
            return status_response(errors.ServiceUnavailable("the server is shutting down"))
        except DiskFull as error:
            # As kube-apiserver forwards etcd's error: without a reason, and with this text.
            return status_response(errors.ApiError(f"etcdserver: mvcc: database space exceeded: {error}"))
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - a bug in one verb answers 500 and is logged; the server lives on
            _log.exception("request failed", method=request.method, path=request.path)
            return status_response(
                errors.InternalError("an error on the server has prevented the request from succeeding")
            )

    def _identify(self, request: Request, tokens: list[object]) -> tuple[UserInfo, errors.ApiError | None]:
        """Return the user of the request.

        A rejected caller still waits for its own turn, or that of anonymous callers.
        """
        caller = ANONYMOUS
        try:
            caller = self.authenticator.authenticate(request)
            user = self.impersonate(request, caller)
        except errors.ApiError as error:
            return caller, error
        if request.on_identified is not None and caller is not ANONYMOUS:
            request.on_identified()
        for observer, token in zip(self.observers, tokens, strict=True):
            observer.identified(token, caller, user)
        return user, None

    async def _execute(
        self, request: Request, info: RequestInfo, user: UserInfo, refusal: errors.ApiError | None
    ) -> Response:
        if refusal is not None:
            raise refusal
        self.authorizer.require(info.attributes(user))
        if info.is_resource:
            return await self.dispatcher.answer(request, info, user)
        return await self._answer_path(request, info, user)

    async def _answer_path(self, request: Request, info: RequestInfo, user: UserInfo) -> Response:
        # Looked up exactly as it was authorized: a permission for `/metrics/` is none for `/metrics`.
        path = info.path
        handler = self._list_paths if path == "/" else self.paths.get(path)
        if handler is None:
            handler = next((found for prefix, found in self.prefixes.items() if path.startswith(prefix)), None)
        if handler is None:
            raise errors.NotFound("the server could not find the requested resource", details={})
        if request.method not in {"GET", "HEAD"}:
            message = "the server does not allow this method on the requested resource"
            raise errors.MethodNotSupported(message, details={})
        return await handler(request, user)

    async def _list_paths(self, _request: Request, _user: UserInfo) -> Response:
        listed = {known for known in self.paths if not known.endswith("/")}
        return json_response({"paths": sorted(listed | self.dispatcher.roots())})
