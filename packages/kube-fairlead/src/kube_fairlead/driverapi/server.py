"""Serves the protocol on a unix socket: a `DriverService`, its registration, and health checks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.rpc import server as rpc_server
from kube_fairlead.base.rpc.calls import Handler, Limits, Send
from kube_fairlead.base.rpc.errors import StatusError
from kube_fairlead.base.rpc.status import Code
from kube_fairlead.base.rpc.unixsocket import SocketTaken
from kube_fairlead.driverapi import codec, contracts, socket_addresses
from kube_fairlead.driverapi.channels import DriverService
from kube_fairlead.driverapi.errors import DriverGone, DriverRefused
from kube_fairlead.driverapi.messages import PluginInfo, Progress

__all__ = ["DriverHandler", "HealthHandler", "RegistrationHandler", "serving"]

_SERVING: Final = 1
_NOT_SERVING: Final = 2
_SERVICE_UNKNOWN: Final = 3
# How often the health is checked for a watcher.
_HEALTH_SECONDS: Final = 1.0
# The queue of unsent progress. When it is full, the newest report replaces the one before it.
_UNSENT_MAX: Final = 16

_log = logs.get_logger(__name__)


class _Handler:
    """The methods of one service: `serve_<method>` takes the request and sends responses."""

    SERVICE = ""
    METHODS: tuple[str, ...] = ()

    def methods(self) -> dict[str, Handler]:
        """The handler of each path."""
        return {f"/{self.SERVICE}/{name}": self._handler(name) for name in self.METHODS}

    def _handler(self, name: str) -> Handler:
        request_type, _ = contracts.method_types(self.SERVICE, name)
        serve = getattr(self, f"serve_{_snake(name)}")

        async def handle(request: bytes, send: Send) -> None:
            from kube_fairlead.base.rpc.protobuf import DecodeError

            try:
                message = request_type.FromString(request)
            except DecodeError as error:
                raise StatusError(Code.INTERNAL, f"malformed {request_type.DESCRIPTOR.name}") from error
            await serve(message, send)

        return handle


class DriverHandler(_Handler):
    """Serves a `DriverService`. Calls that run when `serving` ends fail as Unavailable, and the agent retries."""

    SERVICE = contracts.DRIVER_SERVICE
    METHODS = ("GetTransitions", "StartLifecycleTransition", "EndLifecycleTransition")

    def __init__(self, service: DriverService) -> None:
        self._service = service
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until every running call has been answered."""
        await self._idle.wait()

    async def serve_get_transitions(self, request: Any, send: Send) -> None:
        """Answer GetTransitions."""
        with self._counted():
            with _answering("GetTransitions"):
                offered = await self._service.get_transitions(request.node_name)
            await send(codec.encode_transitions(offered).SerializeToString())

    async def serve_start_lifecycle_transition(self, request: Any, send: Send) -> None:
        """Answer StartLifecycleTransition."""
        with self._counted():
            with _answering("StartLifecycleTransition"):
                reached = await self._service.start(codec.decode_work(request.work))
            await send(codec.encode_reached(reached).SerializeToString())

    async def serve_end_lifecycle_transition(self, request: Any, send: Send) -> None:
        """Answer EndLifecycleTransition: each report of progress, then the result."""
        _, answer_type = contracts.method_types(self.SERVICE, "EndLifecycleTransition")

        async def send_progress(progress: Progress) -> None:
            await send(answer_type(progress=codec.encode_progress(progress)).SerializeToString())

        with self._counted():
            sender = _ProgressSender(send_progress)
            with _answering("EndLifecycleTransition"):
                async with sender.running():
                    reached = await self._service.end(codec.decode_work(request.work), sender.put)
            await send(answer_type(result=codec.encode_reached(reached)).SerializeToString())

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()


class _ProgressSender:
    """A queue of progress: the driver adds reports without waiting, and the caller receives them in order."""

    def __init__(self, send: Callable[[Progress], Awaitable[None]]) -> None:
        self._send = send
        self._unsent: list[Progress] = []
        self._added = asyncio.Event()

    def put(self, progress: Progress) -> None:
        if len(self._unsent) >= _UNSENT_MAX:
            self._unsent.pop()
        self._unsent.append(progress)
        self._added.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with tasks.TaskScope("driver/progress", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self._run(), name="send")
            yield
        await self._send_all()

    async def _run(self) -> None:
        while True:
            await self._added.wait()
            self._added.clear()
            await self._send_all()

    async def _send_all(self) -> None:
        while self._unsent:
            await self._send(self._unsent.pop(0))


class RegistrationHandler(_Handler):
    """Answers with the name of the plugin, and receives whether the agent registered it."""

    SERVICE = contracts.REGISTRATION_SERVICE
    METHODS = ("GetInfo", "NotifyRegistrationStatus")

    def __init__(self, info: PluginInfo, on_status: Callable[[bool, str], None]) -> None:
        self._info = info
        self._on_status = on_status

    async def serve_get_info(self, request: Any, send: Send) -> None:
        """Answer GetInfo."""
        del request
        await send(codec.encode_info(self._info).SerializeToString())

    async def serve_notify_registration_status(self, request: Any, send: Send) -> None:
        """Receive the result of the registration."""
        self._on_status(request.plugin_registered, request.error)
        await send(contracts.message("pluginregistration.RegistrationStatusResponse")().SerializeToString())


class HealthHandler(_Handler):
    """grpc.health.v1: whether the driver can work, by Check or Watch."""

    SERVICE = contracts.HEALTH_SERVICE
    METHODS = ("Check", "Watch")

    def __init__(self, services: frozenset[str], is_healthy: Callable[[], bool], clock: Clock) -> None:
        self._services = services | {""}
        self._is_healthy = is_healthy
        self._clock = clock

    async def serve_check(self, request: Any, send: Send) -> None:
        """Answer Check."""
        if request.service not in self._services:
            raise StatusError(Code.NOT_FOUND, "unknown service")
        await send(self._answer(request.service).SerializeToString())

    async def serve_watch(self, request: Any, send: Send) -> None:
        """Answer Watch: now, and at every change."""
        sent: Any = None
        while True:
            answer = self._answer(request.service)
            if answer != sent:
                await send(answer.SerializeToString())
                sent = answer
            await self._clock.sleep(_HEALTH_SECONDS)

    def _answer(self, service: str) -> Any:
        status = _SERVING if self._is_healthy() else _NOT_SERVING
        known = service in self._services
        return contracts.message("grpc.health.v1.HealthCheckResponse")(status=status if known else _SERVICE_UNKNOWN)


@contextlib.asynccontextmanager
async def serving(path: Path, *handlers: _Handler) -> AsyncIterator[None]:
    """Serve on a socket that only its owner may use while the block lasts. Then the socket is removed.

    The socket gets its name only when the server is ready, because an agent that watches the folder connects at
    once. A socket that a killed process left behind is replaced.

    Raises:
        socket_addresses.AddressTaken: another process serves on this path.
    """
    methods = {path: handler for one in handlers for path, handler in one.methods().items()}
    limits = Limits(message_bytes_max=contracts.MESSAGE_BYTES_MAX)
    try:
        async with rpc_server.serving_path(path, methods, limits=limits):
            yield
    except SocketTaken as error:
        raise socket_addresses.AddressTaken(error.path) from error


@contextlib.contextmanager
def _answering(method: str) -> Iterator[None]:
    """Convert the exceptions of a driver to gRPC statuses."""
    try:
        yield
    except DriverRefused as error:
        raise StatusError(Code.FAILED_PRECONDITION, str(error)) from error
    except DriverGone as error:
        raise StatusError(Code.UNAVAILABLE, str(error)) from error
    except Exception as error:
        _log.exception("driver call failed", method=method)
        raise StatusError(Code.UNKNOWN, f"{type(error).__name__}: {error}") from error


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
