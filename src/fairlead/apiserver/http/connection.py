"""One client connection: HTTP/1.1 over a transport, parsed by llhttp, answered by one task.

Written here rather than taken from a server framework because this is where most of a small request's time goes, and
where a watch's life is decided (docs/decisions/http-server.md). What a client can make us hold is bounded: a head of
64 KiB, a body of 3 MiB and that only once somebody with a right to send it reads it, one request waiting behind the one
being answered, and what the transport buffers before it says stop.
"""

from __future__ import annotations

import asyncio
import collections
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

import httptools

from fairlead.apiserver.http import head
from fairlead.apiserver.http.incoming import Incoming
from fairlead.apiserver.http.messages import Query, Request, Response
from fairlead.base import logs
from fairlead.base.tasks import TaskSet

__all__ = ["Connection", "Handler", "Site"]

Handler = Callable[[Request], Awaitable[Response]]

_MAX_HEAD_BYTES = 64 * 1024
# As kube-apiserver's: so long may a request's head take, so long its body.
_HEAD_SECONDS = 32.0
_BODY_SECONDS = 60.0
# So long a connection without a request is kept; longer than clients keep theirs, so that they hang up first.
_IDLE_SECONDS = 300.0
# So long a client may take to read the end of what it was sent.
_CLOSE_SECONDS = 5.0
# A body that nobody reads (yet) is not taken off the network beyond this.
_BODY_AHEAD_BYTES = 64 * 1024
_UNSENT_BYTES = 64 * 1024
_NO_QUERY = Query({})

_log = logs.get_logger(__name__)


def _log_failure(failure: BaseException) -> None:
    _log.error("a connection broke off in the middle of an answer", error=repr(failure))


class Site:
    """What all connections of a server share."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.tasks = TaskSet("http", on_failure=_log_failure)
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self.stopping = False
        self.now = 0.0  # to the second: enough to end what takes too long
        self.date = b""

    def cut_overdue(self) -> None:
        """Hang up on those who take too long."""
        for connection in list(self.connections):
            if connection.ends_at < self.now:
                connection.abort()


class Connection(asyncio.Protocol):
    """Receives requests and answers them one after another, in order."""

    def __init__(self, site: Site) -> None:
        self.ends_at = site.now + _HEAD_SECONDS
        self._site = site
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None  # uvloop's transports are of no class of asyncio's
        self._task: asyncio.Task[None] | None = None
        self._receiving = Incoming()
        self._in_head = False  # a request has begun and its head is not complete
        self._head_bytes = 0
        self._waiting: collections.deque[Incoming] = collections.deque()
        self._answering: Incoming | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._held_back = False  # the client has filled its buffers; we send nothing until it reads
        self._room: asyncio.Future[None] | None = None
        self._reading = True
        self._deaf = False  # what arrives now is thrown away
        self._certificate: bytes | None = None
        self._address = ""

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there, its TLS handshake done."""
        self._transport = transport
        if self._site.stopping:
            self._transport.abort()  # it came before the listener was closed and is ready only now
            return
        # Over TLS half a megabyte would be kept for each watcher that does not read.
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._site.connections.add(self)
        self._site.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        self._task = self._site.tasks.start(self._serve(), name="connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone; whatever it waited for need not be answered."""
        del exc
        self._deaf = True
        self._site.connections.discard(self)
        if not self._site.connections:
            self._site.empty.set()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._deaf = True  # it wants to speak something else from here on; it gets one more answer
            return
        except httptools.HttpParserError:
            self._refuse(head.HEAD_TOO_LARGE if self._head_bytes > _MAX_HEAD_BYTES else head.BAD_REQUEST)
            return
        if self._in_head:
            # A head that does not end: the parser keeps what it has of it.
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(head.HEAD_TOO_LARGE)
        self._hold_reading()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._held_back = True

    def resume_writing(self) -> None:
        """It reads again."""
        self._held_back = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # ---- the parser's side

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._receiving = Incoming()
        self._in_head = True
        self.ends_at = self._site.now + _HEAD_SECONDS

    def on_url(self, url: bytes) -> None:
        """The target, or a piece of it."""
        self._receiving.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._receiving.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is there: it can be answered, the body is read when it is asked for."""
        incoming = self._receiving
        self._head_bytes = len(incoming.target) + sum(len(name) + len(value) for name, value in incoming.headers)
        if self._head_bytes > _MAX_HEAD_BYTES:
            raise ValueError("the head is too large")  # the parser hands it on as an error of its own
        incoming.method = self._parser.get_method().decode("latin-1")
        incoming.keep_alive = self._parser.should_keep_alive()
        incoming.chunks_understood = self._parser.get_http_version() == "1.1"
        self._in_head = False
        self._head_bytes = 0
        self.ends_at = self._site.now + _BODY_SECONDS
        self._queue(incoming)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._receiving.add(body)

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self.ends_at = float("inf")
        self._receiving.finish()

    # ---- answering

    def shut_down(self) -> None:
        """Close now when nothing is being answered, else after the answer."""
        if self._arrival is None or self._waiting or self._task is None:
            return
        if not self._transport.get_write_buffer_size():
            # Nothing is on its way. A client that only keeps the connection need not be waited for to say goodbye.
            self._transport.abort()
        self._task.cancel()

    def abort(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _queue(self, incoming: Incoming) -> None:
        self._waiting.append(incoming)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _refuse(self, answer: bytes) -> None:
        """What comes cannot be understood as a request: say so once everything before it is answered, and hang up."""
        self._deaf = True
        self._receiving.fail()
        self._queue(Incoming(refusal=answer))

    async def _serve(self) -> None:
        try:
            while not self._site.stopping:
                incoming = await self._next()
                if incoming.refusal:
                    self._transport.write(incoming.refusal)
                    return
                response = await self._site.handler(self._request(incoming))
                await self._respond(incoming, response)
                if not incoming.keep_alive or not incoming.complete or self._deaf:
                    return
                self._answering = None
                if not self._in_head:
                    self.ends_at = self._site.now + _IDLE_SECONDS
        finally:
            self._close()

    async def _next(self) -> Incoming:
        while not self._waiting:
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        self._answering = self._waiting.popleft()
        self._hold_reading()
        return self._answering

    def _request(self, incoming: Incoming) -> Request:
        target = incoming.target.decode("latin-1")
        if not target.startswith("/"):
            # An absolute target, as a proxy would be sent; whose name it carries does not matter here.
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        headers = dict(incoming.headers)
        incoming.begin(headers, self._send_continue, self._hold_reading)
        return Request(
            method=incoming.method,
            path=urllib.parse.unquote(path) if "%" in path else path,
            query=Query(urllib.parse.parse_qs(query, keep_blank_values=True)) if query else _NO_QUERY,
            target=target,
            headers=headers,
            read_body=incoming.read,
            peer_certificate=self._certificate,
            client_address=self._address,
            header_list=incoming.headers,
        )

    def _send_continue(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _respond(self, incoming: Incoming, response: Response) -> None:
        closing = not incoming.keep_alive or not incoming.complete or self._deaf or self._site.stopping
        body = response.body
        if isinstance(body, list):
            body = b"".join(body)
        if isinstance(body, bytes):
            top = head.encode(response, self._site.date, closing=closing, length=len(body))
            self._transport.write(top if incoming.method == "HEAD" else top + body)
            if self._held_back:
                self.ends_at = self._site.now + _BODY_SECONDS
                await self._drain()
            return
        if not incoming.chunks_understood:
            incoming.keep_alive, closing = False, True
        try:
            chunked = incoming.chunks_understood
            self._transport.write(head.encode(response, self._site.date, closing=closing, chunked=chunked))
            if incoming.method == "HEAD":
                return
            async for piece in body:
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                if self._held_back:
                    await self._drain()
            self._transport.write(b"0\r\n\r\n" if chunked else b"")
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def _drain(self) -> None:
        while self._held_back:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def _hold_reading(self) -> None:
        """Take bytes off the network only while somebody will want them."""
        receiving = self._receiving
        ahead = len(self._waiting) > 1 or (receiving.size > _BODY_AHEAD_BYTES and not receiving.wanted)
        if ahead is self._reading and not self._deaf and not self._transport.is_closing():
            self._reading = not ahead
            if ahead:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _close(self) -> None:
        self._deaf = True
        answered = self._answering
        if answered is not None and not answered.complete:
            # It is still sending. Were the connection closed under it, it might never see why it was refused.
            self.ends_at = self._site.now + _CLOSE_SECONDS
            if not self._reading and not self._transport.is_closing():
                self._reading = True
                self._transport.resume_reading()
            return
        self.ends_at = self._site.now + _CLOSE_SECONDS
        self._transport.close()
