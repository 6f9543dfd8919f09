"""One connection of a server: reads frames, runs a task for each call, writes answers.

Guarantees:
1. A call's handler runs in a task of the connection, and is cancelled when the client cancels the call or hangs up,
   when its deadline comes, and when the server stops. The connection does not end before its handlers.
2. Malformed input ends the connection, after a GOAWAY and one line in the log. Other connections go on.
3. What a client can make the server hold is bounded by `Limits`; a client that does not read is not read from.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Final

import h2.errors
import h2.events
import h2.exceptions

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.rpc import calls, framing, status
from kube_fairlead.base.rpc.calls import Budget, IncomingCall, Limits, Methods
from kube_fairlead.base.rpc.errors import ProtocolError, StatusError, Unreachable
from kube_fairlead.base.rpc.status import Code
from kube_fairlead.base.rpc.wire import Wire, decode_headers

__all__ = ["Connection"]

_ANSWER: Final = [(":status", "200"), ("content-type", "application/grpc")]
_NAME_LENGTH_MAX: Final = 100  # of a task, which a client chooses

_log = logs.get_logger(__name__)


class Connection:
    """The calls of one client."""

    def __init__(self, wire: Wire, methods: Methods, limits: Limits, budget: Budget, clock: Clock) -> None:
        self._wire = wire
        self._methods = methods
        self._limits = limits
        self._budget = budget
        self._clock = clock
        self._calls: dict[int, tuple[IncomingCall, asyncio.Task[None]]] = {}
        self._room = asyncio.Event()
        self._headers_due: float | None = None  # when the header block that has begun must be whole
        self.idle_since: float | None = clock.monotonic()  # None: it has calls

    async def run(self) -> None:
        """Serve until the client hangs up. Cancelling it ends every call with UNAVAILABLE, then the connection."""
        try:
            async with tasks.TaskScope("rpc/connection", on_exit=tasks.OnExit.CANCEL) as scope:
                await self._serve(scope)
        except ProtocolError as error:
            _log.warning("malformed input ended a connection", error=str(error))
        except (Unreachable, OSError) as error:
            _log.debug("a client hung up", error=str(error))
        finally:
            self._wire.hang_up()

    async def _serve(self, scope: tasks.TaskScope) -> None:
        try:
            async with self._clock.timeout(self._limits.request_seconds):
                await self._wire.accept(streams_max=self._limits.streams_max)
                events = await self._wire.receive()
        except TimeoutError as error:
            raise Unreachable("the client did not begin to speak HTTP/2") from error
        while True:
            for event in events:
                self._handle(event, scope)
            await self._wire.flush()
            # A client that floods us is read frame by frame, and other tasks run in between.
            await asyncio.sleep(0)
            events = await self._receive()

    async def _receive(self) -> list[h2.events.Event]:
        """One frame. It may begin at any time, unless a header block is not whole; what has begun must end in time."""
        now = self._clock.monotonic()
        if not self._wire.in_header_block:
            self._headers_due = None
        elif self._headers_due is None:
            self._headers_due = now + self._limits.request_seconds
        left = None if self._headers_due is None else self._headers_due - now
        try:
            async with self._clock.timeout(left):
                await self._wire.begin_frame()
            async with self._clock.timeout(self._limits.request_seconds if left is None else left):
                return await self._wire.finish_frame()
        except TimeoutError as error:
            raise Unreachable("the client did not end what it began") from error

    def _handle(self, event: h2.events.Event, scope: tasks.TaskScope) -> None:
        match event:
            case h2.events.RequestReceived(headers=headers, stream_id=stream, stream_ended=ended):
                self._begin(stream, decode_headers(headers), scope, ended=ended is not None)
            case h2.events.DataReceived(data=data, flow_controlled_length=length, stream_id=stream):
                if found := self._calls.get(stream):
                    found[0].feed(data)
                self._wire.h2.acknowledge_received_data(length, stream)
            case h2.events.StreamEnded(stream_id=stream):
                if found := self._calls.get(stream):
                    found[0].end()
            case h2.events.StreamReset(stream_id=stream):
                if found := self._calls.get(stream):
                    found[0].over = True
                    found[1].cancel()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._room.set()
            case _:
                pass  # pings, priorities, acknowledgements: the library has answered where an answer is due

    def _begin(self, stream: int, headers: dict[str, str], scope: tasks.TaskScope, *, ended: bool) -> None:
        if len(self._calls) >= self._limits.streams_max:
            self._wire.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        if (answer := calls.http_status(headers)) != 200:
            self._wire.h2.send_headers(stream, [(":status", str(answer))], end_stream=True)
            if not ended:
                self._wire.h2.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)
            return
        call = IncomingCall(stream, headers, self._limits, self._budget)
        task = scope.start(self._answer(call), name=call.path[:_NAME_LENGTH_MAX])
        self._calls[stream] = call, task
        self.idle_since = None
        task.add_done_callback(functools.partial(self._forget, call))

    def _forget(self, call: IncomingCall, task: asyncio.Task[None]) -> None:
        del task
        call.release()
        del self._calls[call.stream]
        if not self._calls:
            self.idle_since = self._clock.monotonic()

    async def _answer(self, call: IncomingCall) -> None:
        try:
            code, text = await self._outcome(call)
        except asyncio.CancelledError:
            # Nothing is sent if the client cancelled the call. Otherwise the server stops, and the client should retry.
            self._end(call, Code.UNAVAILABLE, "the server is stopping")
            raise
        self._end(call, code, text)

    async def _outcome(self, call: IncomingCall) -> tuple[Code, str]:
        try:
            async with self._clock.timeout(call.timeout_seconds):
                return await self._handled(call)
        except TimeoutError:  # the handler's own is an outcome
            return Code.DEADLINE_EXCEEDED, "the deadline of the call has come"

    async def _handled(self, call: IncomingCall) -> tuple[Code, str]:
        handler = calls.method_of(self._methods, call.path)
        try:
            request = await self._request(call)
            await handler(request, functools.partial(self._send, call))
        except StatusError as error:
            return error.code, str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to this call
            _log.exception("method failed", method=call.path)
            return Code.UNKNOWN, f"{type(error).__name__}: {error}"
        return Code.OK, ""

    async def _request(self, call: IncomingCall) -> bytes:
        try:
            async with self._clock.timeout(self._limits.request_seconds):
                await call.complete.wait()
        except TimeoutError as error:
            text = f"the request did not arrive within {self._limits.request_seconds:g} s"
            raise StatusError(Code.DEADLINE_EXCEEDED, text) from error
        return call.request()

    async def _send(self, call: IncomingCall, message: bytes) -> None:
        try:
            if not call.answering:
                self._wire.h2.send_headers(call.stream, _ANSWER)
                call.answering = True
            body = memoryview(framing.encode_message(message))
            while body:
                room = self._wire.room(call.stream)
                if room <= 0:
                    self._room.clear()
                    await self._room.wait()
                    continue
                self._wire.h2.send_data(call.stream, body[:room].tobytes())
                body = body[room:]
                await self._wire.flush()
        except (h2.exceptions.H2Error, OSError) as error:
            # The client has reset the call or hung up, which cancels the handler; it only learns of it here first.
            call.over = True
            raise asyncio.CancelledError from error

    def _end(self, call: IncomingCall, code: Code, text: str) -> None:
        """Send the status. It waits for nothing: a status is small, and nothing of its call follows."""
        if call.over:
            return
        call.over = True
        trailers = [("grpc-status", str(int(code)))]
        if text:
            trailers.append(("grpc-message", status.encode_text(text)))
        with contextlib.suppress(h2.exceptions.H2Error, OSError):
            self._wire.h2.send_headers(call.stream, trailers if call.answering else _ANSWER + trailers, end_stream=True)
            if not call.ended:
                # The answer is complete: the client need not send the rest of its request.
                self._wire.h2.reset_stream(call.stream, h2.errors.ErrorCodes.NO_ERROR)
            self._wire.write()
