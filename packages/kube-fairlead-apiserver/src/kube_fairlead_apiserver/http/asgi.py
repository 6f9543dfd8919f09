"""The ASGI interface: from bytes to a `Request`, from a `Response` to bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.http.headers import decode_value, first_values
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES, Query, Request, Response
from kube_fairlead_apiserver.http.streams import iterate
from kube_fairlead_apiserver.http.target import read_query

__all__ = ["AsgiApp", "Handler"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]


class AsgiApp:
    """An ASGI 3 application around one handler.

    ``scope["extensions"]["fairlead"]`` may carry ``peer_certificate`` (from our TLS protocol) or ``user`` (from a
    client in the same process); no header can set either.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP exchange."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _answer_lifespan(receive, send)
                return
            # A WebSocket would be exec, attach or port-forward, which need a kubelet that this server does not reach.
            await send({"type": "websocket.close", "code": 1003})
            return
        response = await self._handler(_request(scope, receive))
        try:
            await _send(response, receive, send)
        finally:
            response.sent()


def _request(scope: Scope, receive: Receive) -> Request:
    header_list = [(name.decode("latin-1"), decode_value(value)) for name, value in scope["headers"]]
    headers = first_values(header_list)
    query_string = scope["query_string"]
    query = read_query(query_string.decode("latin-1")) if query_string else {}
    ours = scope.get("extensions", {}).get("fairlead", {})
    client = scope.get("client")

    async def read_body() -> bytes:
        return await _read_body(headers, receive)

    return Request(
        method=scope["method"],
        path=scope["path"],
        query=Query(query),
        target=scope["path"] + (f"?{query_string.decode('latin-1')}" if query_string else ""),
        headers=headers,
        read_body=read_body,
        peer_certificate=ours.get("peer_certificate"),
        client_address=client[0] if client else "",
        header_list=header_list,
        trusted_user=ours.get("user"),
    )


async def _read_body(headers: dict[str, str], receive: Receive) -> bytes:
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
        raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
    message = await receive()
    if message["type"] == "http.disconnect":
        raise asyncio.CancelledError
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > MAX_BODY_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        return body
    pieces = [body]
    size = len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        piece = message.get("body", b"")
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        pieces.append(piece)
    return b"".join(pieces)


async def _send(response: Response, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", response.content_type.encode("latin-1"))]
    headers += [(name.encode("latin-1"), value.encode("utf-8")) for name, value in response.headers]
    body = response.body
    if isinstance(body, list):
        body = b"".join(body)
    if isinstance(body, bytes):
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await _stream(response, receive, send)


class _HungUp(Exception):
    """The client closed the connection."""


async def _stream(response: Response, receive: Receive, send: Send) -> None:
    """Send pieces as they come, until they end or the client disconnects."""
    assert not isinstance(response.body, bytes | list)  # noqa: S101 - the caller sent those
    pieces = response.body
    try:
        async with TaskScope("http", on_exit=OnExit.CANCEL) as scope:
            scope.start(_raise_on_hang_up(receive), name="hang-up watch")
            # An empty piece first: some servers hold the headers back until there is a body to send.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            async for piece in iterate(pieces):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    except* _HungUp:
        pass
    finally:
        pieces.close()


async def _raise_on_hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise _HungUp


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
