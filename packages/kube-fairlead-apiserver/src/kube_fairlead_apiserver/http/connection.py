"""One client connection: HTTP/1.1 over a transport, parsed by llhttp, answered by one task.

Written here rather than taken from a server framework because this is where most of a small request's time goes, and
where a watch's life is decided (docs/decisions/http-server.md). `Flow` decides when to read and what to hold; this
class reports to it what happens, and carries out what follows.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/secure_serving.go
"""

from __future__ import annotations

import asyncio
import collections
import functools
from typing import Any

import httptools

from kube_fairlead.base import commitment, sockets
from kube_fairlead_apiserver.http import head, headers
from kube_fairlead_apiserver.http.flow import AHEAD_BYTES, MAX_HEAD_BYTES, Answer, Flow, Phase, Wait
from kube_fairlead_apiserver.http.incoming_request import IncomingRequest
from kube_fairlead_apiserver.http.lane import Lane
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.response_writer import GONE, Held, ResponseWriter, reset_when_closed
from kube_fairlead_apiserver.http.shared_state import SharedState
from kube_fairlead_apiserver.http.streams import Stream, size_of
from kube_fairlead_apiserver.http.target import is_well_formed

__all__ = ["Connection"]

# By `Wait`.
_PATIENCE_SECONDS = (
    float("inf"),  # the server's own turn
    # As kube-apiserver's: so long may a request's head take, so long its body.
    32.0,
    60.0,
    # Longer than clients keep an idle connection, so that they hang up first.
    300.0,
    float("inf"),  # room: every response says how long itself
    5.0,  # goodbye
)
_BODY, _ROOM, _NONE = Phase.BODY, Wait.ROOM, Answer.NONE
_UNSENT_BYTES = 16 * 1024
# The parser cannot be stopped between two requests, so it gets no more than this at once.
_SLICE_BYTES = 4 * 1024
_BODY_SLICE_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """Receives requests and answers them one after another, in order."""

    def __init__(self, shared: SharedState) -> None:
        self.ends_at = shared.now + _PATIENCE_SECONDS[Wait.HEAD]
        self._shared = shared
        self._flow = Flow()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None  # uvloop's transports are of no class of asyncio's
        self._task: asyncio.Task[None] | None = None
        self._receiving = IncomingRequest()
        self._refusal = b""  # why the head that was just parsed is none
        self._unparsed = b""
        self._waiting: collections.deque[IncomingRequest] = collections.deque()
        self._arrival: asyncio.Future[None] | None = None
        self._writer = ResponseWriter(GONE, _nothing)
        self._reading = True
        self._wait = Wait.HEAD  # for which `ends_at` was set, and in which request
        self._request_number = 0
        self._stall_seconds = 0.0  # so long the client may read nothing of the present response
        self._progress = 0  # how far the client had read when the deadline was set
        self._commitment = commitment.Commitment()  # of the request that is being answered
        self._waits_since = shared.now
        self._lost = False
        self._lane = Lane(shared.pace, self._go_on)
        self._deferred_at = 0.0
        self._certificate: bytes | None = None
        self._address = ""

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there, its TLS handshake done."""
        self._transport = transport
        if self._shared.stopping:
            self._transport.abort()  # it came before the listener was closed and is ready only now
            return
        # Over TLS half a megabyte would be kept for each watcher that does not read.
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._writer = ResponseWriter(transport, self._hurry, self._shared.pace)
        self._shared.connections.add(self)
        self._shared.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if self._certificate is not None:
            self._shared.known(self)
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        self._lane.open(self._address)
        self._task = self._shared.tasks.start(self._serve(), name="connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, and what it waited for need not be answered.

        A request that has written is carried to its end: were it cut off between two writes, what it did would be half
        done. Everything else ends now.
        """
        del exc
        self._lost = True
        self.ends_at = float("inf")
        writes = self._flow.answer is Answer.HANDLING and self._commitment.begun
        self._flow.end()
        self._unparsed = b""
        self._lane.leave()
        if self._task is None:
            self._forget()
        elif writes:
            return  # `_serve` ends with it
        else:
            self._task.cancel()
        self._shared.forget(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._unparsed:
            self._unparsed += data
        elif not self._flow.deaf:
            self._unparsed = data
        lane = self._lane
        if not lane.deferred and lane.is_open():
            self._read_on()
            return
        if not self._deferred_at:
            self._deferred_at = self._shared.now
        # The rest of a body is not even decrypted. A request that begins is mostly here as a whole.
        if self._reading and (self._flow.phase is _BODY or len(self._unparsed) > AHEAD_BYTES):
            self._reading = False
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """It is the turn of what has come. The time until then was not the client's."""
        self.ends_at += self._shared.now - self._deferred_at
        self._deferred_at = 0.0
        self._read_on()

    def _read_on(self) -> None:
        size = len(self._unparsed)
        self._follow()
        if not self._waiting or self._flow.answer is not _NONE:
            self._lane.was_read(size - len(self._unparsed))

    def pause_writing(self) -> None:
        """The client does not read."""
        self._flow.held_back = True
        self._writer.pause()
        self._follow()
        self._shared.held_more(self._writer.made_bytes)

    def resume_writing(self) -> None:
        """It reads again."""
        self._flow.held_back = False
        self._follow()
        self._writer.resume()

    def _hurry(self) -> None:
        """What is sent should have ended by now; the client is not waited for as long as before."""
        if self._stall_seconds > _PATIENCE_SECONDS[Wait.GOODBYE]:
            self._stall_seconds = _PATIENCE_SECONDS[Wait.GOODBYE]
            self._set_deadline()

    # ---- the parser's side

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._receiving = IncomingRequest()
        self._flow.head_began()

    def on_url(self, url: bytes) -> None:
        """The target, or a piece of it."""
        self._receiving.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. What comes after the body is a trailer, not a header: no handler may take it for one."""
        if not self._receiving.in_body:
            text = value.decode("latin-1") if value.isascii() else headers.decode_value(value)
            self._receiving.headers.append((name.decode("latin-1").lower(), text))

    def on_headers_complete(self) -> None:
        """The head is there: it can be answered, the body is read when it is asked for."""
        incoming = self._receiving
        version = self._parser.get_http_version()
        framing = headers.read_framing(version, incoming.headers)
        self._refusal = head.HEAD_TOO_LARGE if self._head_is_too_large(incoming) else framing.refusal
        if self._refusal or not is_well_formed(incoming.target):
            raise ValueError("no request")  # the parser hands it on as an error of its own
        incoming.in_body = True
        incoming.method = self._parser.get_method().decode("latin-1")
        incoming.keep_alive = self._parser.should_keep_alive()
        incoming.chunks_understood = version == "1.1"
        incoming.expects_continue = framing.expects_continue
        self._flow.head_ended(framing.declared_bytes)
        incoming.too_large = self._flow.dropping
        self._queue(incoming)

    def _head_is_too_large(self, incoming: IncomingRequest) -> bool:
        # What came in one slice cannot be.
        if not self._flow.head_bytes:
            return False
        size = len(incoming.target) + sum(len(name) + len(value) for name, value in incoming.headers)
        return size > MAX_HEAD_BYTES

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._flow.body_arrived(len(body)):
            self._receiving.add(body)
        else:
            self._receiving.drop()

    def on_chunk_header(self) -> None:
        """The size of a chunk."""
        self._flow.chunk_began()

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self._flow.body_ended()
        self._receiving.finish()

    # ---- carrying out what follows

    def _follow(self) -> None:
        """Parse, read or stop reading, and set the deadline: after every event that can change one of them."""
        flow = self._flow
        if self._unparsed:
            self._parse()
        if self._transport.is_closing():
            return
        reading, wait = flow.outlook()
        if reading is not self._reading:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if wait is not self._wait or flow.requests != self._request_number:
            self._wait = wait
            self._request_number = flow.requests
            self._set_deadline()
        if flow.may_close:
            self._transport.close()

    @property
    def _is_quiet(self) -> bool:
        """Nothing is kept or paused, so a step of the server changes neither what is read nor the deadline."""
        return self._reading and not self._unparsed and not self._flow.held_back

    def _parse(self) -> None:
        flow = self._flow
        if len(self._unparsed) <= _SLICE_BYTES and flow.parsing:
            data, self._unparsed = self._unparsed, b""
            self._parse_slice(data)
            flow.unparsed_bytes = 0
            return
        view = memoryview(self._unparsed)
        start = 0
        while start < len(view) and flow.parsing:
            end = start + (_BODY_SLICE_BYTES if flow.phase is _BODY else _SLICE_BYTES)
            self._parse_slice(view[start:end])
            start = end
        # A copy, so that the bytes before it are freed.
        self._unparsed = b"" if flow.deaf or start >= len(view) else bytes(view[start:])
        flow.unparsed_bytes = len(self._unparsed)

    def _parse_slice(self, data: bytes | memoryview) -> None:
        flow = self._flow
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            flow.broke(refused=False)  # it wants to speak something else from here on; it gets one more answer
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or head.BAD_REQUEST)
            return
        flow.slice_parsed(len(data))
        if flow.too_large:
            # A head or a trailer that does not end: the parser keeps what it has of it.
            self._refuse(head.HEAD_TOO_LARGE)

    def _set_deadline(self) -> None:
        """Let the time begin that the client has for what the server now waits for."""
        self._waits_since = self._shared.now
        if self._wait is _ROOM:
            self._progress = self._writer.read_progress()
            self.ends_at = self._shared.now + self._stall_seconds
        else:
            self.ends_at = self._shared.now + _PATIENCE_SECONDS[self._wait]

    def cut_overdue(self) -> bool:
        """Hang up if the client takes too long. One that reads, however slowly, has its time anew."""
        if not self._reading and sockets.peer_has_closed(self._transport.get_extra_info("socket")):
            self.abort()  # what lies in front of its farewell is not read before the answer has ended
            return True
        if self.ends_at >= self._shared.now or self._lane.deferred:
            return False
        if self._wait is _ROOM and self._writer.read_progress() > self._progress:
            self._set_deadline()
            return False
        self.abort()
        return True

    @property
    def held(self) -> Held | None:
        """What is held for a client that does not read, and since when; None for one that does."""
        if self._wait is not _ROOM:
            return None
        return self._writer.held(self._waits_since)

    # ---- answering

    def shut_down(self) -> None:
        """Close now when nothing is being answered, else after the answer."""
        if self._lane.deferred or self._arrival is None or self._waiting or self._task is None:
            return
        if not self._transport.get_write_buffer_size():
            # Nothing is on its way. A client that only keeps the connection need not be waited for to say goodbye.
            self._transport.abort()
        self._task.cancel()

    def abort(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            reset_when_closed(self._transport)
            self._transport.abort()

    def _queue(self, incoming: IncomingRequest) -> None:
        self._waiting.append(incoming)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _refuse(self, answer: bytes) -> None:
        """What comes cannot be understood as a request: say so once everything before it is answered, and hang up."""
        if self._flow.ended:
            self._flow.broke(refused=False)
            return
        self._flow.broke(refused=True)
        self._receiving.fail()
        self._queue(IncomingRequest(refusal=answer))

    async def _serve(self) -> None:
        try:
            while not self._shared.stopping:
                incoming = await self._next()
                if incoming.refusal:
                    self._transport.write(incoming.refusal)
                    return
                self._commitment = commitment.undertake()
                request = self._request(incoming)
                response = await self._shared.handler(request)
                self._lane.answered(request)
                self._writer.lane = request.lane
                try:
                    if self._lost:
                        response.discard()
                        return
                    closing = self._begin_response(incoming, response)
                    await self._respond(incoming, response, closing=closing)
                finally:
                    response.sent()
                if closing:
                    return
                self._flow.answered()
                self._follow()
        finally:
            self._task = None
            self._close()
            if self._lost:
                self._shared.forget(self)
                self._forget()

    async def _next(self) -> IncomingRequest:
        while not self._waiting:
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        incoming = self._waiting.popleft()
        self._flow.taken()
        if not self._is_quiet:
            self._follow()
        return incoming

    def _request(self, incoming: IncomingRequest) -> Request:
        incoming.begin(self._send_continue, self._want_body)
        request = incoming.request(self._certificate, self._address)
        self._lane.enter(request)
        if self in self._shared.unidentified:
            request.on_identified = functools.partial(self._shared.known, self)
        return request

    def _send_continue(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _want_body(self) -> None:
        self._flow.body_wanted()
        self._follow()

    def _begin_response(self, incoming: IncomingRequest, response: Response) -> bool:
        """The handler is done; whether its response is the last one on this connection."""
        self._stall_seconds = response.stall_seconds
        if not incoming.complete:
            incoming.drop()
        self._flow.response_began()
        if not (self._is_quiet and incoming.complete):
            self._follow()
        if isinstance(response.body, Stream) and not incoming.chunks_understood:
            return True
        return not (incoming.keep_alive and incoming.complete and self._flow.may_go_on) or self._shared.stopping

    async def _respond(self, incoming: IncomingRequest, response: Response, *, closing: bool) -> None:
        body = response.body
        if not isinstance(body, Stream):
            text = body if isinstance(body, bytes) else tuple(body)
            top = head.encode(response, self._shared.date, closing=closing, length=size_of(text))
            await self._writer.send(top, b"" if incoming.method == "HEAD" else text)
            return
        try:
            chunked = incoming.chunks_understood
            self._transport.write(head.encode(response, self._shared.date, closing=closing, chunked=chunked))
            if incoming.method != "HEAD":
                await self._writer.stream(body, chunked=chunked)
        finally:
            response.discard()

    def _close(self) -> None:
        """End the connection. A client that still sends reads first why it was refused, if it does so in time."""
        self._flow.end()
        self._follow()

    def _forget(self) -> None:
        """Let nothing lead back here any more: then all of it is freed at once, without the garbage collector."""
        self._parser = None
        self._transport = GONE
        self._writer = ResponseWriter(GONE, _nothing)
        self._waiting.clear()
        self._receiving = IncomingRequest()


def _nothing() -> None:
    return None
