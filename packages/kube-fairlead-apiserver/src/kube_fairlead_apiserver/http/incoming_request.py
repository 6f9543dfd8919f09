"""A request that is being received: what has arrived, and waiting for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http import headers
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES, Query, Request
from kube_fairlead_apiserver.http.target import decode_path, path_and_query, read_query

__all__ = ["IncomingRequest"]

_NO_QUERY = Query({})


class IncomingRequest:
    """One request, whose body may be incomplete. The connection fills it, the handler reads it."""

    __slots__ = (
        "_ask",
        "_body",
        "_news",
        "_want",
        "chunks_understood",
        "complete",
        "expects_continue",
        "failed",
        "headers",
        "in_body",
        "keep_alive",
        "method",
        "refusal",
        "target",
        "too_large",
    )

    def __init__(self, refusal: bytes = b"") -> None:
        self.method = ""
        self.target = b""
        self.headers: list[tuple[str, str]] = []
        self.in_body = False  # the head is complete
        self.keep_alive = True
        self.chunks_understood = True
        self.expects_continue = False
        self.complete = False
        self.failed = False  # the rest of the body is malformed
        self.too_large = False
        self.refusal = refusal  # the error response to a malformed request
        # Most bodies arrive in one piece, which is kept. Many small pieces would take many times their size.
        self._body: bytes | bytearray = b""
        self._news: asyncio.Future[None] | None = None
        self._ask: Callable[[], None] = _nothing
        self._want: Callable[[], None] = _nothing

    def add(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        if not self._body:
            self._body = piece
            return
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += piece

    def drop(self) -> None:
        """The body is too large: keep nothing of it."""
        self.too_large = True
        self._body = b""
        self._tell()

    def finish(self) -> None:
        """The body is complete."""
        self.complete = True
        self._tell()

    def fail(self) -> None:
        """The rest of the body is malformed."""
        self.failed = not self.complete
        self._tell()

    def begin(self, ask: Callable[[], None], want: Callable[[], None]) -> None:
        """Prepare the call of the handler. ``ask`` sends 100 Continue, ``want`` requests the rest of the body."""
        self._ask, self._want = ask, want

    def request(self, certificate: bytes | None, address: str) -> Request:
        """Return the request for the handler, with the client's certificate and address."""
        target = path_and_query(self.target.decode("latin-1"))
        path, _, query = target.partition("?")
        return Request(
            method=self.method,
            path=decode_path(path),
            query=Query(read_query(query)) if query else _NO_QUERY,
            target=target,
            headers=headers.first_values(self.headers),
            read_body=self.read,
            peer_certificate=certificate,
            client_address=address,
            header_list=self.headers,
        )

    async def read(self) -> bytes:
        """Return the whole body; 413 when it is too large."""
        while not (self.complete or self.failed or self.too_large):
            if self.expects_continue:
                self.expects_continue = False
                self._ask()
            self._news = asyncio.get_running_loop().create_future()
            # This may read bytes that have arrived, and so complete the body.
            self._want()
            await self._news
        if self.too_large:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        if self.failed:
            raise errors.BadRequest("the body of the request is malformed")
        if isinstance(self._body, bytearray):
            self._body = bytes(self._body)
        return self._body

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _nothing() -> None:
    return None
