"""Serving the protocol on a unix socket: any `DriverService`, a registration, and health."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpclib
import grpclib.const
import grpclib.server

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.driverapi import addresses, codec, contracts
from kube_fairlead.driverapi.channel import DriverService
from kube_fairlead.driverapi.errors import DriverGone, DriverRefused
from kube_fairlead.driverapi.messages import PluginInfo, Progress

__all__ = ["DriverHandler", "HealthHandler", "RegistrationHandler", "serving"]

_SERVING: Final = 1
_NOT_SERVING: Final = 2
_SERVICE_UNKNOWN: Final = 3
# How soon a watcher hears of a change.
_HEALTH_SECONDS: Final = 1.0
# Room for a burst; a driver that counts faster than anybody reads keeps only the newest.
_UNSENT_MAX: Final = 16

_log = logs.get_logger(__name__)
_Stream = Any  # grpclib's server stream, whose type parameters are message classes made at run time


class _Handler:
    """The methods of one service, as grpclib asks for them."""

    SERVICE = ""
    METHODS: tuple[tuple[str, grpclib.const.Cardinality], ...] = ()

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        """What to call for which path."""
        mapping: dict[str, grpclib.const.Handler] = {}
        for name, cardinality in self.METHODS:
            request, answer = contracts.method_types(self.SERVICE, name)
            function = getattr(self, f"serve_{_snake(name)}")
            mapping[f"/{self.SERVICE}/{name}"] = grpclib.const.Handler(function, cardinality, request, answer)
        return mapping


class DriverHandler(_Handler):
    """Serves a `DriverService`. A call that the end of `serving` interrupts tells its caller to come again."""

    SERVICE = contracts.DRIVER_SERVICE
    METHODS = (
        ("GetTransitions", grpclib.const.Cardinality.UNARY_UNARY),
        ("StartLifecycleTransition", grpclib.const.Cardinality.UNARY_UNARY),
        ("EndLifecycleTransition", grpclib.const.Cardinality.UNARY_STREAM),
    )

    def __init__(self, service: DriverService) -> None:
        self._service = service
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until every call that is under way has been answered."""
        await self._idle.wait()

    async def serve_get_transitions(self, stream: _Stream) -> None:
        """Answer GetTransitions."""
        with self._counted():
            request = await stream.recv_message()
            with _answering("GetTransitions"):
                offered = await self._service.get_transitions(request.node_name)
            await stream.send_message(codec.encode_transitions(offered))

    async def serve_start_lifecycle_transition(self, stream: _Stream) -> None:
        """Answer StartLifecycleTransition."""
        with self._counted():
            request = await stream.recv_message()
            with _answering("StartLifecycleTransition"):
                reached = await self._service.start(codec.decode_work(request.work))
            await stream.send_message(codec.encode_reached(reached))

    async def serve_end_lifecycle_transition(self, stream: _Stream) -> None:
        """Answer EndLifecycleTransition: progress as it comes, then the result."""
        _, answer_type = contracts.method_types(self.SERVICE, "EndLifecycleTransition")

        async def send(progress: Progress) -> None:
            await stream.send_message(answer_type(progress=codec.encode_progress(progress)))

        with self._counted():
            request = await stream.recv_message()
            outbox = _Outbox(send)
            with _answering("EndLifecycleTransition"):
                async with outbox.running():
                    reached = await self._service.end(codec.decode_work(request.work), outbox.put)
            await stream.send_message(answer_type(result=codec.encode_reached(reached)))

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


class _Outbox:
    """Progress on its way: a driver tells of it without waiting, and the caller gets it in order."""

    def __init__(self, send: Callable[[Progress], Awaitable[None]]) -> None:
        self._send = send
        self._unsent: list[Progress] = []
        self._news = asyncio.Event()

    def put(self, progress: Progress) -> None:
        if len(self._unsent) >= _UNSENT_MAX:
            self._unsent.pop()
        self._unsent.append(progress)
        self._news.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with tasks.TaskScope("driver/progress", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self._run(), name="send")
            yield
        await self._send_all()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._send_all()

    async def _send_all(self) -> None:
        while self._unsent:
            await self._send(self._unsent.pop(0))


class RegistrationHandler(_Handler):
    """Says who the plugin is, and hears whether it is known."""

    SERVICE = contracts.REGISTRATION_SERVICE
    METHODS = (
        ("GetInfo", grpclib.const.Cardinality.UNARY_UNARY),
        ("NotifyRegistrationStatus", grpclib.const.Cardinality.UNARY_UNARY),
    )

    def __init__(self, info: PluginInfo, on_status: Callable[[bool, str], None]) -> None:
        self._info = info
        self._on_status = on_status

    async def serve_get_info(self, stream: _Stream) -> None:
        """Answer GetInfo."""
        await stream.recv_message()
        await stream.send_message(codec.encode_info(self._info))

    async def serve_notify_registration_status(self, stream: _Stream) -> None:
        """Hear how it went."""
        request = await stream.recv_message()
        self._on_status(request.plugin_registered, request.error)
        await stream.send_message(contracts.message("pluginregistration.RegistrationStatusResponse")())


class HealthHandler(_Handler):
    """grpc.health.v1: whether the driver can do its work, asked or watched."""

    SERVICE = contracts.HEALTH_SERVICE
    METHODS = (
        ("Check", grpclib.const.Cardinality.UNARY_UNARY),
        ("Watch", grpclib.const.Cardinality.UNARY_STREAM),
    )

    def __init__(self, services: frozenset[str], is_healthy: Callable[[], bool], clock: Clock) -> None:
        self._services = services | {""}
        self._is_healthy = is_healthy
        self._clock = clock

    async def serve_check(self, stream: _Stream) -> None:
        """Answer Check."""
        request = await stream.recv_message()
        if request.service not in self._services:
            raise grpclib.GRPCError(grpclib.const.Status.NOT_FOUND, "unknown service")
        await stream.send_message(self._answer(request.service))

    async def serve_watch(self, stream: _Stream) -> None:
        """Answer Watch: now, and at every change."""
        request = await stream.recv_message()
        told: Any = None
        while True:
            answer = self._answer(request.service)
            if answer != told:
                await stream.send_message(answer)
                told = answer
            await self._clock.sleep(_HEALTH_SECONDS)

    def _answer(self, service: str) -> Any:
        status = _SERVING if self._is_healthy() else _NOT_SERVING
        known = service in self._services
        return contracts.message("grpc.health.v1.HealthCheckResponse")(status=status if known else _SERVICE_UNKNOWN)


def _is_news(record: logging.LogRecord) -> bool:
    """A caller that hangs up cancels its call; our handlers then say UNAVAILABLE, which grpclib takes for a mistake."""
    return record.msg != "Failed to handle cancellation"


logging.getLogger(grpclib.server.__name__).addFilter(_is_news)


@contextlib.asynccontextmanager
async def serving(path: Path, *handlers: _Handler) -> AsyncIterator[None]:
    """Serve on a socket that only its owner may use, for as long as the block lasts; then the socket is gone.

    The socket appears under its name only when it is ready to answer: whoever watches the folder dials at once. One
    that a killed process left behind is replaced.

    Raises:
        addresses.AddressTaken: another process serves there.
    """
    server = grpclib.server.Server(list(handlers))
    listening = _listening(path)
    number = _inode(path)
    try:
        await server.start(sock=listening)
    except BaseException:
        listening.close()
        _remove(path, number)
        raise
    try:
        yield
    finally:
        _remove(path, number)
        server.close()
        await server.wait_closed()


def _listening(path: Path) -> socket.socket:
    """A socket of this name. Nothing is waited for, so that two that begin at once do not meet in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_served(path):
        raise addresses.AddressTaken(path)
    # Names that begin with a point are not looked at by anybody who watches the folder.
    hidden = path.with_name(f".{path.name}")
    hidden.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(hidden))
        listening.listen()
        hidden.replace(path)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            # Another user's, or one with too much to do to answer now: somebody's in any case.
            return True
    return True


def _remove(path: Path, number: int | None) -> None:
    # Somebody who removed the name and made it again has it now.
    if _inode(path) == number:
        path.unlink(missing_ok=True)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _answering(method: str) -> Iterator[None]:
    """What a driver raises, as the gRPC status that says it."""
    try:
        yield
    except DriverRefused as error:
        raise grpclib.GRPCError(grpclib.const.Status.FAILED_PRECONDITION, str(error)) from error
    except DriverGone as error:
        raise grpclib.GRPCError(grpclib.const.Status.UNAVAILABLE, str(error)) from error
    except asyncio.CancelledError as error:
        # The caller hung up, and hears nothing of it, or this process is stopping, and the caller should come again.
        raise grpclib.GRPCError(grpclib.const.Status.UNAVAILABLE, "the driver is stopping") from error
    except Exception as error:
        _log.exception("the driver failed", method=method)
        raise grpclib.GRPCError(grpclib.const.Status.UNKNOWN, f"{type(error).__name__}: {error}") from error


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
