"""A request on its way in: what has arrived of it, and waiting for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fairlead.api import errors
from fairlead.apiserver.http.messages import MAX_BODY_BYTES

__all__ = ["Incoming"]


class Incoming:
    """One request, whose body may still be coming. Filled by the connection, read by the handler."""

    __slots__ = (
        "_ask",
        "_expects",
        "_news",
        "_pieces",
        "_want",
        "chunks_understood",
        "complete",
        "headers",
        "keep_alive",
        "method",
        "refusal",
        "size",
        "target",
        "wanted",
    )

    def __init__(self, refusal: bytes = b"") -> None:
        self.method = ""
        self.target = b""
        self.headers: list[tuple[str, str]] = []
        self.keep_alive = True
        self.chunks_understood = True
        self.complete = False
        self.size = 0  # of the body so far
        self.wanted = False  # somebody reads the body
        self.refusal = refusal  # the answer to what is no request at all
        self._pieces: list[bytes] = []
        self._news: asyncio.Future[None] | None = None
        self._expects = False
        self._ask: Callable[[], None] = _nothing
        self._want: Callable[[], None] = _nothing

    def add(self, piece: bytes) -> None:
        """A piece of the body; beyond the limit it is counted and dropped."""
        self.size += len(piece)
        if self.size <= MAX_BODY_BYTES:
            self._pieces.append(piece)
        else:
            self._pieces.clear()
            self._tell()

    def finish(self) -> None:
        """The body is complete."""
        self.complete = True
        self._tell()

    def fail(self) -> None:
        """The rest will never be understood."""
        if self._news is not None and not self._news.done():
            self._news.set_exception(errors.BadRequest("the body of the request is malformed"))

    def begin(self, headers: Mapping[str, str], ask: Callable[[], None], want: Callable[[], None]) -> None:
        """The handler is about to be called. ``ask`` sends 100 Continue, ``want`` has the rest of the body taken in."""
        self._expects = headers.get("expect", "").lower() == "100-continue"
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
            self.size = max(self.size, MAX_BODY_BYTES + 1)
            self._pieces.clear()
        self._ask, self._want = ask, want

    async def read(self) -> bytes:
        """The whole body; 413 when it is larger than anything may be."""
        while not self.complete and self.size <= MAX_BODY_BYTES:
            if self._expects:
                self._expects = False
                self._ask()
            self.wanted = True
            self._want()
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self.size > MAX_BODY_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _nothing() -> None:
    return None
