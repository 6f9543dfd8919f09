"""One client connection: HTTP/1.1 over a transport, parsed by llhttp, answered by one task.

It is hand-written rather than taken from a framework, because most of a small request's time is spent here, and a
watch's memory depends on it (docs/decisions/http-server.md). `ConnectionState` decides when to read and what to hold;
this class reports events to it and carries out its decisions.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/secure_serving.go
"""

from __future__ import annotations

import asyncio
import collections
import functools
from typing import Any

import httptools

from kube_fairlead.base import commitment, sockets
from kube_fairlead_apiserver.http import connection_state, headers, response_head
from kube_fairlead_apiserver.http.incoming_request import IncomingRequest
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.response_writer import GONE, ResponseWriter, UnreadBytes, reset_when_closed
from kube_fairlead_apiserver.http.shared_state import SharedState
from kube_fairlead_apiserver.http.streams import Stream, size_of
from kube_fairlead_apiserver.http.target import is_well_formed
from kube_fairlead_apiserver.http.throttle import ReadThrottle

__all__ = ["Connection"]

# By `Wait`.
_PATIENCE_SECONDS = (
    float("inf"),  # the server works
    # As kube-apiserver: the time limits of a request's head and of its body.
    32.0,
    60.0,
    # Longer than clients keep an idle connection, so that the client closes it first.
    300.0,
    float("inf"),  # room: every response has its own limit
    5.0,  # the client closes the connection
)
_BODY, _NONE = connection_state.RequestPhase.BODY, connection_state.ResponsePhase.NONE
_ROOM = connection_state.Wait.ROOM
_UNSENT_BYTES = 16 * 1024
# The parser cannot stop between two requests, so it gets at most this many bytes at once.
_SLICE_BYTES = 4 * 1024
_BODY_SLICE_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """Receives requests and responds to them in order, one at a time."""

    def __init__(self, shared: SharedState) -> None:
        self.ends_at = shared.now + _PATIENCE_SECONDS[connection_state.Wait.HEAD]
        self._shared = shared
        self._state = connection_state.ConnectionState()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None  # uvloop's transports derive from no asyncio class
        self._task: asyncio.Task[None] | None = None
        self._receiving = IncomingRequest()
        self._refusal = b""  # the error of the head that was just parsed
        self._unparsed = b""
        self._waiting: collections.deque[IncomingRequest] = collections.deque()
        self._arrival: asyncio.Future[None] | None = None
        self._writer = ResponseWriter(GONE, _nothing)
        self._reading = True
        self._wait = connection_state.Wait.HEAD  # the wait and the request that `ends_at` belongs to
        self._request_number = 0
        self._stall_seconds = 0.0  # time that the client may read nothing of the current response
        self._progress = 0  # what the client had read when the deadline was set
        self._commitment = commitment.Commitment()  # of the current request
        self._waits_since = shared.now
        self._lost = False
        self._throttle = ReadThrottle(shared.scheduler, self._go_on)
        self._deferred_at = 0.0
        self._certificate: bytes | None = None
        self._address = ""

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection, after its TLS handshake."""
        self._transport = transport
        if self._shared.stopping:
            self._transport.abort()  # it connected before the listener was closed
            return
        # The default over TLS would hold half a megabyte for each watcher that does not read.
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._writer = ResponseWriter(transport, self._hurry, self._shared.scheduler)
        self._shared.connections.add(self)
        self._shared.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if self._certificate is not None:
            self._shared.known(self)
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        self._throttle.open(self._address)
        self._task = self._shared.tasks.start(self._serve(), name="connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client disconnected; its pending requests need no response.

        A request that has begun to write continues to its end, because a cut between two writes would leave its effect
        incomplete. Every other request ends now.
        """
        del exc
        self._lost = True
        self.ends_at = float("inf")
        writes = self._state.answer is connection_state.ResponsePhase.HANDLING and self._commitment.begun
        self._state.end()
        self._unparsed = b""
        self._throttle.leave()
        if self._task is None:
            self._forget()
        elif writes:
            return  # `_serve` ends with it
        else:
            self._task.cancel()
        self._shared.forget(self)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        if self._unparsed:
            self._unparsed += data
        elif not self._state.deaf:
            self._unparsed = data
        throttle = self._throttle
        if not throttle.deferred and throttle.is_open():
            self._read_on()
            return
        if not self._deferred_at:
            self._deferred_at = self._shared.now
        # The rest of a body is not even decrypted. A new request mostly arrives as a whole.
        if self._reading and (self._state.phase is _BODY or len(self._unparsed) > connection_state.AHEAD_BYTES):
            self._reading = False
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Process the received bytes at their turn. The waiting time does not count against the client."""
        self.ends_at += self._shared.now - self._deferred_at
        self._deferred_at = 0.0
        self._read_on()

    def _read_on(self) -> None:
        size = len(self._unparsed)
        self._follow()
        if not self._waiting or self._state.answer is not _NONE:
            self._throttle.was_read(size - len(self._unparsed))

    def pause_writing(self) -> None:
        """Pause: the client does not read."""
        self._state.held_back = True
        self._writer.pause()
        self._follow()
        self._shared.held_more(self._writer.made_bytes)

    def resume_writing(self) -> None:
        """Resume: the client reads again."""
        self._state.held_back = False
        self._follow()
        self._writer.resume()

    def _hurry(self) -> None:
        """The response should have ended; the client gets less time from now on."""
        if self._stall_seconds > _PATIENCE_SECONDS[connection_state.Wait.GOODBYE]:
            self._stall_seconds = _PATIENCE_SECONDS[connection_state.Wait.GOODBYE]
            self._set_deadline()

    # ---- the parser's side

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        self._receiving = IncomingRequest()
        self._state.head_began()

    def on_url(self, url: bytes) -> None:
        """Handle the target, or a piece of it."""
        self._receiving.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle one header. A header after the body is a trailer: no handler may take it for a header."""
        if not self._receiving.in_body:
            text = value.decode("latin-1") if value.isascii() else headers.decode_value(value)
            self._receiving.headers.append((name.decode("latin-1").lower(), text))

    def on_headers_complete(self) -> None:
        """Handle a complete head: the handler can start, and the body is read on demand."""
        incoming = self._receiving
        version = self._parser.get_http_version()
        framing = headers.read_framing(version, incoming.headers)
        self._refusal = response_head.HEAD_TOO_LARGE if self._head_is_too_large(incoming) else framing.refusal
        if self._refusal or not is_well_formed(incoming.target):
            raise ValueError("no request")  # the parser reports it as its own error
        incoming.in_body = True
        incoming.method = self._parser.get_method().decode("latin-1")
        incoming.keep_alive = self._parser.should_keep_alive()
        incoming.chunks_understood = version == "1.1"
        incoming.expects_continue = framing.expects_continue
        self._state.head_ended(framing.declared_bytes)
        incoming.too_large = self._state.dropping
        self._queue(incoming)

    def _head_is_too_large(self, incoming: IncomingRequest) -> bool:
        # A head in one slice cannot be too large.
        if not self._state.head_bytes:
            return False
        size = len(incoming.target) + sum(len(name) + len(value) for name, value in incoming.headers)
        return size > connection_state.MAX_HEAD_BYTES

    def on_body(self, body: bytes) -> None:
        """Handle a piece of the body."""
        if self._state.body_arrived(len(body)):
            self._receiving.add(body)
        else:
            self._receiving.drop()

    def on_chunk_header(self) -> None:
        """Handle the size of a chunk."""
        self._state.chunk_began()

    def on_message_complete(self) -> None:
        """Handle a complete request."""
        self._state.body_ended()
        self._receiving.finish()

    # ---- carrying out what follows

    def _follow(self) -> None:
        """Parse, read or stop reading, and set the deadline: after every event that can change one of them."""
        state = self._state
        if self._unparsed:
            self._parse()
        if self._transport.is_closing():
            return
        reading, wait = state.outlook()
        if reading is not self._reading:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if wait is not self._wait or state.requests != self._request_number:
            self._wait = wait
            self._request_number = state.requests
            self._set_deadline()
        if state.may_close:
            self._transport.close()

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing is kept or paused: then a step of the server changes neither reading nor the deadline."""
        return self._reading and not self._unparsed and not self._state.held_back

    def _parse(self) -> None:
        state = self._state
        if len(self._unparsed) <= _SLICE_BYTES and state.parsing:
            data, self._unparsed = self._unparsed, b""
            self._parse_slice(data)
            state.unparsed_bytes = 0
            return
        view = memoryview(self._unparsed)
        start = 0
        while start < len(view) and state.parsing:
            end = start + (_BODY_SLICE_BYTES if state.phase is _BODY else _SLICE_BYTES)
            self._parse_slice(view[start:end])
            start = end
        # A copy, so that the bytes before it are freed.
        self._unparsed = b"" if state.deaf or start >= len(view) else bytes(view[start:])
        state.unparsed_bytes = len(self._unparsed)

    def _parse_slice(self, data: bytes | memoryview) -> None:
        state = self._state
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            state.broke(refused=False)  # a request to upgrade the protocol; it gets one more response
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or response_head.BAD_REQUEST)
            return
        state.slice_parsed(len(data))
        if state.too_large:
            # A head or a trailer without an end: the parser keeps it.
            self._refuse(response_head.HEAD_TOO_LARGE)

    def _set_deadline(self) -> None:
        """Start the client's time limit for the current wait."""
        self._waits_since = self._shared.now
        if self._wait is _ROOM:
            self._progress = self._writer.read_progress()
            self.ends_at = self._shared.now + self._stall_seconds
        else:
            self.ends_at = self._shared.now + _PATIENCE_SECONDS[self._wait]

    def cut_overdue(self) -> bool:
        """Close the connection if the client takes too long. A client that reads, however slowly, gets a new limit."""
        if not self._reading and sockets.peer_has_closed(self._transport.get_extra_info("socket")):
            self.abort()  # its close is not seen before the response has ended
            return True
        if self.ends_at >= self._shared.now or self._throttle.deferred:
            return False
        if self._wait is _ROOM and self._writer.read_progress() > self._progress:
            self._set_deadline()
            return False
        self.abort()
        return True

    @property
    def held(self) -> UnreadBytes | None:
        """The bytes held for a client that does not read, and since when; None for one that reads."""
        if self._wait is not _ROOM:
            return None
        return self._writer.held(self._waits_since)

    # ---- answering

    def shut_down(self) -> None:
        """Close now when no request is in progress, else after its response."""
        if self._throttle.deferred or self._arrival is None or self._waiting or self._task is None:
            return
        if not self._transport.get_write_buffer_size():
            # Nothing is in flight. The server does not wait for the client to close an idle connection.
            self._transport.abort()
        self._task.cancel()

    def abort(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            reset_when_closed(self._transport)
            self._transport.abort()

    def _queue(self, incoming: IncomingRequest) -> None:
        self._waiting.append(incoming)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _refuse(self, answer: bytes) -> None:
        """Reject malformed input: respond with an error after all earlier responses, and close."""
        if self._state.ended:
            self._state.broke(refused=False)
            return
        self._state.broke(refused=True)
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
                self._throttle.answered(request)
                self._writer.flow = request.flow
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
                self._state.answered()
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
        self._state.taken()
        if not self._is_quiet:
            self._follow()
        return incoming

    def _request(self, incoming: IncomingRequest) -> Request:
        incoming.begin(self._send_continue, self._want_body)
        request = incoming.request(self._certificate, self._address)
        self._throttle.enter(request)
        if self in self._shared.unidentified:
            request.on_identified = functools.partial(self._shared.known, self)
        return request

    def _send_continue(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _want_body(self) -> None:
        self._state.body_wanted()
        self._follow()

    def _begin_response(self, incoming: IncomingRequest, response: Response) -> bool:
        """Begin the response; returns whether it is the last one on this connection."""
        self._stall_seconds = response.stall_seconds
        if not incoming.complete:
            incoming.drop()
        self._state.response_began()
        if not (self._is_quiet and incoming.complete):
            self._follow()
        if isinstance(response.body, Stream) and not incoming.chunks_understood:
            return True
        return not (incoming.keep_alive and incoming.complete and self._state.may_go_on) or self._shared.stopping

    async def _respond(self, incoming: IncomingRequest, response: Response, *, closing: bool) -> None:
        body = response.body
        if not isinstance(body, Stream):
            text = body if isinstance(body, bytes) else tuple(body)
            top = response_head.encode(response, self._shared.date, closing=closing, length=size_of(text))
            await self._writer.send(top, b"" if incoming.method == "HEAD" else text)
            return
        try:
            chunked = incoming.chunks_understood
            self._transport.write(response_head.encode(response, self._shared.date, closing=closing, chunked=chunked))
            if incoming.method != "HEAD":
                await self._writer.stream(body, chunked=chunked)
        finally:
            response.discard()

    def _close(self) -> None:
        """End the connection. A client that still sends has some time to read the reason of the rejection."""
        self._state.end()
        self._follow()

    def _forget(self) -> None:
        """Break reference cycles, so that everything is freed at once, without the garbage collector."""
        self._parser = None
        self._transport = GONE
        self._writer = ResponseWriter(GONE, _nothing)
        self._waiting.clear()
        self._receiving = IncomingRequest()


def _nothing() -> None:
    return None
