"""The embedded API server, candidates and a network between them that can be slow, lossy or gone: all on one clock."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock, VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.transport import Request, Response, StreamedResponse
from kube_fairlead.election import Lock
from kube_fairlead.election.election_record import LeaderElectionRecord
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.server import ApiServer
from tests.inprocess import serving

LOCK = Lock("kube-system", "test")


@dataclasses.dataclass(eq=False)
class Network:
    """What lies between one client and the server. Delays are asked for once per request."""

    inner: InProcessTransport
    clock: Clock
    there: Callable[[], float] = lambda: 0.0
    back: Callable[[], float] = lambda: 0.0
    is_down: bool = False
    loses_answer: Callable[[Request], bool] = lambda _request: False
    forbids_lists: bool = False
    is_mute: bool = False  # watches stay open and say nothing
    sent: list[Request] = dataclasses.field(default_factory=list)
    slow: Callable[[Request], float] = lambda _request: 0.0
    streams: set[asyncio.Event] = dataclasses.field(default_factory=set)

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        self._expect_up(request)
        if self.forbids_lists and request.path.endswith("/leases"):
            return Response(403, {}, b'{"kind": "Status", "reason": "Forbidden", "message": "leases is forbidden"}')
        try:
            async with self.clock.timeout(request.timeout_seconds):
                await self.clock.sleep(self.there() + self.slow(request))
                self._expect_up(request)
                response = await self.inner.send(request)
                await self.clock.sleep(self.back())
        except TimeoutError as error:
            raise errors.RequestTimedOut(f"{request} timed out") from error
        if self.is_down or self.loses_answer(request):
            raise errors.ConnectionBroken(f"{request}: the answer was lost")
        return response

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        self._expect_up(request)
        async with self.inner.stream(request) as response:
            yield _Cuttable(response, self)

    def cut(self) -> None:
        """Nothing goes through any more, and open watches break."""
        self.is_down = True
        for stream in self.streams:
            stream.set()

    def mend(self) -> None:
        self.is_down = False

    async def close(self) -> None:
        await self.inner.close()

    def _expect_up(self, request: Request) -> None:
        if self.is_down:
            raise errors.ServerUnreachable(f"{request}: no route")


class _Cuttable:
    """A stream that delivers late, and breaks when the network does."""

    def __init__(self, inner: StreamedResponse, network: Network) -> None:
        self._inner = inner
        self._network = network

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> dict[str, str]:
        return dict(self._inner.headers)

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        cut = asyncio.Event()
        self._network.streams.add(cut)
        chunks = self._inner.chunks()
        try:
            async with tasks.TaskScope("cuttable", on_exit=tasks.OnExit.CANCEL) as scope:
                broken = scope.start(_wait(cut), name="cut")
                while True:
                    chunk = scope.start(_next(chunks), name="next")
                    await asyncio.wait([broken, chunk], return_when=asyncio.FIRST_COMPLETED)
                    if cut.is_set():
                        break
                    arrived = chunk.result()
                    if arrived is None:
                        return
                    await self._network.clock.sleep(self._network.back())
                    if not self._network.is_mute:
                        yield arrived
        finally:
            self._network.streams.discard(cut)
        raise errors.ConnectionBroken("the network was cut")


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


class World:
    """One server, one clock, as many clients as wanted."""

    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock
        self.networks: list[Network] = []
        self.admin = self.client("admin")

    def client(self, name: str, *, clock: Clock | None = None, seed: int = 1) -> Client:
        who = UserInfo(name=name, groups=("system:masters", "system:authenticated"))
        inner = InProcessTransport(self.server.app, clock=self.clock, extensions={"fairlead": {"user": who}})
        network = Network(inner, clock or self.clock)
        self.networks.append(network)
        return Client(network, clock=clock or self.clock, randomness=SeededRandomness(f"{seed}/{name}"))

    @staticmethod
    def network_of(client: Client) -> Network:
        assert isinstance(client.transport, Network)
        return client.transport

    async def lease(self, lock: Lock = LOCK) -> Lease:
        return await self.admin.of(Lease).get(lock.name, namespace=lock.namespace)

    async def record(self, lock: Lock = LOCK) -> LeaderElectionRecord:
        return LeaderElectionRecord.of(await self.lease(lock))

    async def until(self, condition: Callable[[], bool], *, within_seconds: float = 120) -> None:
        """Let time pass until something is so."""
        limit = self.clock.monotonic() + within_seconds
        await self.clock.settle()
        while not condition():
            assert self.clock.monotonic() < limit, "it never came to pass"
            assert await self.clock.advance_to_next()

    async def close(self) -> None:
        for network in self.networks:
            await network.close()


@contextlib.asynccontextmanager
async def a_world(folder: pathlib.Path) -> AsyncIterator[World]:
    clock = VirtualClock()
    async with serving(folder, clock) as server:
        world = World(server, clock)
        try:
            yield world
        finally:
            await world.close()
