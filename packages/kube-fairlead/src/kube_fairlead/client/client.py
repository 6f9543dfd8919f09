"""The client: one API server, any resource, with retries and typed errors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupResource, GroupVersionResource
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client import errors, resources, retry
from kube_fairlead.client.throttle import Throttle
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.client.verbs import Api

__all__ = ["Client"]

_T = TypeVar("_T")

# A little more than the server gives itself (60 s), so that its own, clearer answer comes first.
_TIMEOUT_SECONDS = 75.0
_NO_RESOURCE = GroupResource("", "")


class Client:
    """Talks to one API server.

    `client.of(Pod)` and `client.of(GroupVersionResource(...))` give the verbs of one resource, typed or as plain
    dictionaries; `request` sends anything else. Errors of the server are raised as `kube_fairlead.api.errors`, all
    others as `kube_fairlead.client.errors`. Close it, or use it as a block.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        randomness: Randomness,
        namespace: str = "default",
        retry_policy: retry.RetryPolicy = retry.DEFAULT,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        throttle: Throttle | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.randomness = randomness
        self.namespace = namespace
        self._retry = retry_policy
        self._timeout_seconds = timeout_seconds
        self._throttle = throttle
        self.scheme = scheme or Scheme()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self.transport.close()

    def with_retry(self, policy: retry.RetryPolicy) -> Client:
        """The same connection under another policy, e.g. `retry.NEVER` where the caller has a loop of its own."""
        return self._like(self.transport, policy)

    def with_transport(self, wrap: Callable[[Transport], Transport]) -> Client:
        """The same client with something between it and its connection, e.g. a check before each write."""
        return self._like(wrap(self.transport), self._retry)

    def with_scheme(self, scheme: Scheme) -> Client:
        """The same connection with kinds in other groups."""
        return self._like(self.transport, self._retry, scheme)

    def _like(self, transport: Transport, policy: retry.RetryPolicy, scheme: Scheme | None = None) -> Client:
        return Client(
            transport,
            clock=self.clock,
            randomness=self.randomness,
            namespace=self.namespace,
            retry_policy=policy,
            timeout_seconds=self._timeout_seconds,
            throttle=self._throttle,
            scheme=scheme or self.scheme,
        )

    @overload
    def of(self, kind: GroupVersionResource) -> Api[dict[str, Any]]: ...
    @overload
    def of(self, kind: resources.Resource[_T]) -> Api[_T]: ...
    @overload
    def of(self, kind: type[_T], *, keep: bool = True) -> Api[_T]: ...
    def of(self, kind: GroupVersionResource | resources.Resource[Any] | type[Any], *, keep: bool = True) -> Api[Any]:
        """The verbs of one resource.

        With `keep=False` typed objects drop the fields that their kind does not name: lean, for objects that
        are only read, such as those of an informer. Writing one back is refused.
        """
        return Api(self, lambda: resources.describe(kind, self.scheme, keep=keep))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        body: Any = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        resource: GroupResource = _NO_RESOURCE,
        name: str = "",
    ) -> Response:
        """Send any request; for a path that is no resource, such as /version or /readyz.

        Args:
            method: the HTTP method.
            path: percent-encoded, from the server's root.
            query: query parameters.
            body: bytes as they are, or a value that is encoded as JSON.
            content_type: of the body.
            headers: more of them.
            timeout_seconds: for each attempt.
            resource: what the request is about, for error messages.
            name: the object it is about, for error messages.

        Raises:
            ApiError: the server answered with an error.
            ClientError: no answer came.
        """
        request = self._build(method, path, query, body, content_type, headers, timeout_seconds)
        response = await self._send(request)
        if not 200 <= response.status < 300:
            raise _error_of(request, response.status, response.headers, response.body, resource, name)
        return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        timeout_seconds: float | None = None,
        resource: GroupResource = _NO_RESOURCE,
        name: str = "",
    ) -> AsyncIterator[StreamedResponse]:
        """Open a stream. Never retried here: its reader knows where to resume."""
        request = self._build("GET", path, query, None, "", None, timeout_seconds)
        if self._throttle is not None:
            await self._throttle.wait_turn()
        async with self.transport.stream(request) as response:
            if not 200 <= response.status < 300:
                body = await response.read()
                raise _error_of(request, response.status, response.headers, body, resource, name)
            yield response

    def _build(
        self,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...],
        body: Any,
        content_type: str,
        headers: Mapping[str, str] | None,
        timeout_seconds: float | None,
    ) -> Request:
        all_headers = dict(headers or {})
        encoded = b""
        if body is not None:
            encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
            all_headers["content-type"] = content_type
        return Request(
            method=method,
            path=path,
            query=query,
            headers=all_headers,
            body=encoded,
            timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
        )

    async def _send(self, request: Request) -> Response:
        attempt = 0
        while True:
            if self._throttle is not None:
                await self._throttle.wait_turn()
            try:
                response = await self.transport.send(request)
            except errors.ClientError as error:
                delay = self._retry.after_error(request, error, attempt, self.randomness)
                if delay is None:
                    raise
            else:
                delay = self._retry.after_response(request, response, attempt, self.randomness)
                if delay is None:
                    return response
            await self.clock.sleep(delay)
            attempt += 1


def _error_of(
    request: Request,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    resource: GroupResource = _NO_RESOURCE,
    name: str = "",
) -> api_errors.ApiError | errors.AnswerInvalid:
    """The error that an answer means: the Status in its body, else what its code says."""
    if status < 400:
        target = headers.get("location", "")
        return errors.AnswerInvalid(
            f"{request} was answered with {status}{' to ' + target if target else ''}, as no API server does"
        )
    with contextlib.suppress(msgspec.DecodeError, TypeError):
        decoded = msgspec.json.decode(body, type=dict)
        if decoded.get("kind") == "Status":
            return api_errors.from_status({"code": status, **decoded})
    return api_errors.from_response(
        status,
        verb=request.method,
        resource=resource,
        name=name,
        body=body[:2048].decode(errors="replace").strip(),
        retry_after_seconds=int(retry.retry_after_seconds(headers) or 0),
    )
