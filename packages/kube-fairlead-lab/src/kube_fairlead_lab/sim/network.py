"""The network between the simulated components and the API server: it delays, loses and cuts.

A request and its answer take time, and packets arrive in order. Either can be lost with the connection; the client then
knows as much as on a real network. An actor can be cut off in one direction or both, until the cut heals or a timeout
ends the request. When the server's process is killed, every connection to it breaks.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import enum
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, MutableMapping
from typing import Any, Final

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client import errors
from kube_fairlead.client.inprocess import AsgiApplication
from kube_fairlead.client.transport import Request, Response
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_lab.sim.loop import Process, SimLoop, current_process
from kube_fairlead_lab.sim.scenario import NetworkFaults
from kube_fairlead_lab.sim.trace import Trace

__all__ = ["Direction", "Network", "SimTransport"]

_LATENCY_SECONDS: Final = (0.0002, 0.004)
_PATIENCE_SECONDS: Final = 20.0  # a kernel's timeout for a connection
_CHUNKS_IN_FLIGHT: Final = 64
_REASONS: Final = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 409: "Conflict"}


class Direction(enum.Flag):
    """The direction of a cut."""

    OUT = enum.auto()  # packets from the actor are held back
    IN = enum.auto()  # packets to the actor are held back
    BOTH = OUT | IN


class Network:
    """All connections and their faults. `faults` is None after the chaos phase."""

    def __init__(self, loop: SimLoop, randomness: Randomness, trace: Trace) -> None:
        self.loop = loop
        self.randomness = randomness
        self.trace = trace
        self.faults: NetworkFaults | None = None
        self.injected: collections.Counter[str] = collections.Counter()
        self.on_request: list[Callable[[str, Request], None]] = []
        self.on_answer: list[Callable[[str, Request, Response, int], None]] = []
        self.on_watch: list[Callable[[Any, Request, bytes], Any]] = []
        self.on_failure: list[Callable[[Request, str], None]] = []
        self.newest_seen = 0  # the highest revision that a client has received
        self._server: tuple[Process, AsgiApplication] | None = None
        self._cut: dict[str, Direction] = {}
        self._exchanges: dict[_Exchange, None] = {}

    def listen(self, process: Process, application: AsgiApplication) -> None:
        """Register the server."""
        self._server = (process, application)

    def server(self) -> tuple[Process, AsgiApplication] | None:
        """Return the current server."""
        return self._server

    def server_died(self) -> None:
        """Remove the server and break every connection."""
        self._server = None
        for exchange in list(self._exchanges):
            exchange.break_off("the server is gone")

    def client_died(self, process: Process) -> None:
        """Close the connections of a client that was killed."""
        for exchange in list(self._exchanges):
            if exchange.client is process:
                exchange.hang_up()

    def cut(self, party: str, way: Direction) -> None:
        """Cut an actor off in a direction. A second cut does not heal the first."""
        self._cut[party] = self._cut.get(party, way) | way

    def heal(self, party: str) -> None:
        """Heal the cuts of an actor. Some of its connections have not survived."""
        self._cut.pop(party, None)
        for exchange in list(self._exchanges):
            if exchange.party == party:
                if self.randomness.random() < 0.5:
                    exchange.break_off("connection reset")
                else:
                    exchange.flush()

    def is_cut(self, party: str, way: Direction = Direction.BOTH) -> bool:
        """Return whether an actor is cut off in any of these directions."""
        cut = self._cut.get(party)
        return cut is not None and bool(cut & way)

    def latency(self) -> float:
        """Latency of the next packet."""
        slow = self.faults.slow if self.faults is not None else 0.0
        if slow and self.randomness.random() < slow:
            self.injected["slow packet"] += 1
            return self.randomness.uniform(0.1, 3.0)
        return self.randomness.uniform(*_LATENCY_SECONDS)

    def mishap(self, request: Request) -> str:
        """Return the fault of a request: none (mostly), `request lost`, `answer lost`, or a status code."""
        faults = self.faults
        if faults is None:
            return ""
        draw = self.randomness.random()
        for name, rate in (
            ("request lost", faults.request_lost),
            ("answer lost", faults.answer_lost),
            ("429", faults.answer_429),
            ("500", faults.answer_500),
            ("503", faults.answer_503),
            ("409", faults.answer_409 if request.method in {"PUT", "PATCH"} else 0.0),
        ):
            if draw < rate:
                self.injected[name] += 1
                return name
            draw -= rate
        return ""

    def open(self, request: Request, party: str, user: UserInfo) -> _Exchange:
        """Open an exchange; the server's process handles it.

        Raises:
            ServerUnreachable: there is no server.
        """
        if self._server is None:
            raise errors.ServerUnreachable("connection refused")
        process, application = self._server
        for listener in self.on_request:
            listener(party, request)
        exchange = _Exchange(self, request, party)
        self._exchanges[exchange] = None
        work = exchange.serve(application, _scope(request, user))
        self.loop.start(process, work, name=f"{party}: {request}")
        return exchange

    def open_watches(self) -> list[tuple[Request, object]]:
        """Open watches, and the state that the listener keeps for each."""
        return [
            (exchange.request, exchange.listener_state)
            for exchange in self._exchanges
            if exchange.is_watch and exchange.is_open and exchange.client.is_alive
        ]

    def failed(self, request: Request, why: str) -> None:
        """Report that the server itself failed, and not the network."""
        for listener in self.on_failure:
            listener(request, why)

    def closed(self, exchange: _Exchange) -> None:
        """Remove a finished exchange."""
        self._exchanges.pop(exchange, None)


@dataclasses.dataclass(eq=False)
class SimTransport:
    """The transport of one actor's client."""

    network: Network
    party: str
    clock: Clock
    user: UserInfo

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the whole answer."""
        seen = self.network.newest_seen
        try:
            async with self.clock.timeout(request.timeout_seconds), self._exchange(request) as exchange:
                if isinstance(exchange, Response):
                    return exchange
                await exchange.wait_started()
                response = Response(exchange.status, exchange.headers, await exchange.read())
        except TimeoutError as error:
            raise _timed_out(request) from error
        for listener in self.network.on_answer:
            listener(self.party, request, response, seen)
        return response

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Exchange | _Ready]:
        """Send a request and keep the answer open."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with self.clock.timeout(request.timeout_seconds):
                    exchange = await stack.enter_async_context(self._exchange(request))
                    if not isinstance(exchange, Response):
                        await exchange.wait_started()
            except TimeoutError as error:
                raise _timed_out(request) from error
            yield _Ready(exchange) if isinstance(exchange, Response) else exchange

    async def close(self) -> None:
        """Nothing to close: the network owns the connections."""

    @contextlib.asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncIterator[_Exchange | Response]:
        network = self.network
        await asyncio.sleep(network.latency())
        if network.is_cut(self.party, Direction.OUT):
            network.injected["packet into a cut"] += 1
            await asyncio.sleep(_PATIENCE_SECONDS)
            raise errors.ServerUnreachable("no route to host")
        mishap = network.mishap(request)
        if mishap and request.method != "GET":
            network.trace.add(self.party, f"{request}: {mishap} by the network")
        if mishap == "request lost":
            raise errors.ConnectionBroken("connection reset by peer")
        if mishap.isdecimal():
            await asyncio.sleep(network.latency())
            yield _refusal(int(mishap))
            return
        exchange = network.open(request, self.party, self.user)
        if mishap == "answer lost":
            exchange.lose_answer()
        try:
            yield exchange
        finally:
            exchange.hang_up()


class _Exchange:
    """One request and its answer, as both ends see it."""

    def __init__(self, network: Network, request: Request, party: str) -> None:
        self._network = network
        self.request = request
        self.party = party
        self.client = current_process()
        self.is_watch = ("watch", "true") in request.query or ("watch", "1") in request.query
        self.listener_state: object = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self._body_taken = False
        self._chunks: collections.deque[bytes] = collections.deque()
        self._in_flight = 0
        self._start: MutableMapping[str, Any] | None = None
        self._wire: collections.deque[MutableMapping[str, Any]] = collections.deque()
        self._held: list[MutableMapping[str, Any]] = []
        self._latest = 0.0
        self._is_complete = False
        self._is_lost = False
        self._broken = ""
        self._hung_up = asyncio.Event()
        self._news = asyncio.Event()  # for the client: a packet arrived
        self._room = asyncio.Event()  # for the server: the client has read a packet
        self._room.set()

    @property
    def is_open(self) -> bool:
        """Whether the answer has begun, and no end has closed the connection."""
        return bool(self.status) and not self._broken and not self._is_complete and not self._hung_up.is_set()

    # ---- the server's side

    async def serve(self, application: AsgiApplication, scope: dict[str, Any]) -> None:
        try:
            await application(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - a client sees an exception of the server as a broken connection
            self._network.failed(self.request, repr(error))
            self.break_off(f"{type(error).__name__}: {error}")
        finally:
            self._network.closed(self)

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._body_taken:
            self._body_taken = True
            return {"type": "http.request", "body": self.request.body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self._hung_up.is_set():
            await asyncio.sleep(0)
            return
        if message["type"] == "http.response.start":
            # Servers send the head in one packet with the body that follows.
            self._start = message
            return
        if self._start is not None and self._start["status"] == 500:
            self._network.failed(self.request, bytes(message.get("body", b""))[:500].decode(errors="replace"))
        self._in_flight += 1
        self._dispatch(message)
        if self._in_flight >= _CHUNKS_IN_FLIGHT:
            self._room.clear()
            await self._room.wait()

    def _dispatch(self, message: MutableMapping[str, Any]) -> None:
        self._wire.append(message)
        self._send_packet()

    def _send_packet(self) -> None:
        # In order, whatever the latency of each packet, as TCP delivers.
        loop = self._network.loop
        self._latest = max(self._latest, loop.time() + self._network.latency())
        loop.call_at(self._latest, self._arrive, context=loop.harness.context)

    # ---- the wire

    def _arrive(self) -> None:
        message = self._wire.popleft()
        if self._broken or self._hung_up.is_set():
            return  # the client is gone
        if self._is_lost:
            self.break_off("connection reset by peer")
            return
        if self._network.is_cut(self.party, Direction.IN):
            self._held.append(message)
            return
        if not self.status and self._start is not None:
            self.status = self._start["status"]
            self.headers = {
                key.decode("latin-1").lower(): value.decode("latin-1") for key, value in self._start.get("headers", ())
            }
        if body := message.get("body"):
            self._chunks.append(bytes(body))
            if self.is_watch:
                for listener in self._network.on_watch:
                    self.listener_state = listener(self.listener_state, self.request, body)
        self._is_complete = not message.get("more_body", False)
        self._news.set()

    def flush(self) -> None:
        """Deliver the packets that a cut has held back."""
        held, self._held = self._held, []
        # Before later packets that are still under way.
        self._wire.extendleft(reversed(held))
        for _ in held:
            self._send_packet()

    def lose_answer(self) -> None:
        """Break the connection instead of delivering the answer."""
        self._is_lost = True

    def break_off(self, why: str) -> None:
        """Break the connection for both ends."""
        if not self._broken:
            self._broken = why
            self._news.set()
            self.hang_up()

    def hang_up(self) -> None:
        self._hung_up.set()
        self._room.set()

    # ---- the client's side

    async def wait_started(self) -> None:
        while not self.status:
            await self._wait_news("before an answer came")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._in_flight -= 1
                self._room.set()
                yield chunk
            if self._is_complete:
                return
            await self._wait_news("in the middle of the answer")

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def _wait_news(self, when: str) -> None:
        if self._broken:
            raise errors.ConnectionBroken(f"{self._broken} {when}")
        self._news.clear()
        await self._news.wait()


class _Ready:
    """A complete answer to a stream request."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def read(self) -> bytes:
        return self._body


def _scope(request: Request, user: UserInfo) -> dict[str, Any]:
    headers = {"accept": "application/json", "user-agent": user.name}
    headers.update({key.lower(): value for key, value in request.headers.items()})
    headers["content-length"] = str(len(request.body))
    return {
        "type": "http",
        "method": request.method,
        "path": urllib.parse.unquote(request.path),
        "query_string": urllib.parse.urlencode(request.query).encode(),
        "headers": [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "extensions": {"fairlead": {"user": user}},
    }


def _refusal(code: int) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "a proxy on the way is not well",
        "reason": _REASONS[code],
        "code": code,
    }
    headers = {"content-type": "application/json"}
    if code == 429:
        headers["retry-after"] = "1"
    return Response(code, headers, msgspec.json.encode(body))


def _timed_out(request: Request) -> errors.RequestTimedOut:
    return errors.RequestTimedOut(f"{request} was not answered within {request.timeout_seconds:g} s")
