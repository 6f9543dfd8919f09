"""This process as a Windows service. The control handler is registered first; a shutdown handler attaches later.

The service control manager calls from its own threads. Each such call only computes the result and reports the new
status, and posts the rest to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol

from kube_fairlead.agent.windows.control import Answer, Effect, ServiceModel, Status
from kube_fairlead.agent.windows.scm import ScmError, advapi, check
from kube_fairlead.agent.windows.structures import (
    HandlerProcedure,
    MainProcedure,
    ServiceKind,
    ServiceStatus,
    ServiceTableEntry,
    Win32Error,
)
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock

__all__ = ["NotAService", "Service", "ServiceCalls", "ShutdownHandler", "WindowsCalls"]

# Well within the wait hint of every report.
_PROGRESS_SECONDS: Final = 1.0
_DISPATCHER_END_SECONDS: Final = 5.0

_log = logs.get_logger(__name__)


class NotAService(Exception):
    """Raised when the service control manager did not start this process."""


class ShutdownHandler(Protocol):
    """Handles a shutdown of the node. Both methods are called on the event loop."""

    def on_preshutdown(self) -> None:
        """Windows announces the shutdown and waits for this service."""
        ...

    def on_settings_changed(self) -> None:
        """The settings of the service changed."""
        ...


class ServiceCalls(Protocol):
    """The calls of Windows that a service needs."""

    def dispatch(self, main: Callable[[str], None]) -> None:
        """Let Windows call `main` with the service's name, on another thread. Returns when `main` has ended.

        Raises:
            ScmError: this process is not a service.
        """
        ...

    def register(self, name: str, handler: Callable[[int], int]) -> None:
        """Register the handler of controls. Called from `main`."""
        ...

    def report(self, status: Status) -> None:
        """Report the status of the service."""
        ...


class Service:
    """One service: `start`, then `run` its component, then `finish`. Its name is known after the start."""

    def __init__(self, calls: ServiceCalls, clock: Clock, *, accepts_preshutdown: bool = True) -> None:
        self.name = ""
        self._calls = calls
        self._clock = clock
        self._model = ServiceModel(accepts_preshutdown=accepts_preshutdown)
        self._lock = threading.Lock()  # keeps reports in the order of status changes
        self._began = threading.Event()
        self._ended = threading.Event()
        self._failure: ScmError | None = None
        self._dispatcher: threading.Thread | None = None
        self._shutdown_handler: ShutdownHandler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_wanted = threading.Event()
        self._stop_seen = asyncio.Event()

    def start(self) -> None:
        """Become the service and handle controls from now on.

        Raises:
            NotAService: the service control manager did not start this process.
            ScmError: the service control manager rejected a call.
        """
        self._dispatcher = threading.Thread(target=self._dispatch, name="service-dispatcher", daemon=True)
        self._dispatcher.start()
        self._began.wait()
        if self._failure is None:
            return
        if self._failure.code == Win32Error.FAILED_SERVICE_CONTROLLER_CONNECT:
            raise NotAService("this process was not started by the service control manager") from self._failure
        raise self._failure

    async def run(self, component: Callable[[], Awaitable[None]]) -> None:
        """Run a component until it ends, or cancel it when the service must stop."""
        self._loop = asyncio.get_running_loop()
        if self._stop_wanted.is_set():
            self._stop_seen.set()
        try:
            async with tasks.TaskScope("service", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._report_progress(), name="progress")
                asked = scope.start(self._stop_seen.wait(), name="stop")
                work = scope.start(_awaited(component), name="work")
                await asyncio.wait([asked, work], return_when=asyncio.FIRST_COMPLETED)
                await tasks.cancel_and_wait(work)
        finally:
            self._loop = None

    @contextlib.contextmanager
    def attached(self, shutdown_handler: ShutdownHandler) -> Iterator[None]:
        """Pass notifications to the handler for the time of the block; outside of it they only stop the service."""
        self._shutdown_handler = shutdown_handler
        with self._lock:
            self._model.is_attached = True
        try:
            yield
        finally:
            with self._lock:
                self._model.is_attached = False
            self._shutdown_handler = None

    def finish(self, exit_code: int = 0) -> None:
        """Report the end of the service, so that Windows does not wait for it. May be called again."""
        with self._lock:
            if self._model.finished(exit_code):
                self._report()
        self._ended.set()
        self._want_stop()

    def join(self) -> None:
        """Wait until the service control manager has released this process, so that its end is not a crash."""
        if self._dispatcher is not None:
            self._dispatcher.join(_DISPATCHER_END_SECONDS)

    def _dispatch(self) -> None:
        try:
            self._calls.dispatch(self._main)
        except ScmError as error:
            self._failure = error
        finally:
            self._began.set()
            self._ended.set()

    def _main(self, name: str) -> None:
        self.name = name
        self._calls.register(name, self._handle)
        with self._lock:
            self._report()
            self._model.started()
            self._report()
        _log.info("running as a Windows service", service=self.name)
        self._began.set()
        self._ended.wait()

    def _handle(self, control: int) -> int:
        with self._lock:
            before = self._model.status
            answer, effect = self._model.handle(control)
            if self._model.status is not before:
                self._report()
        self._carry_out(effect)
        if answer is not Answer.DONE:
            _log.info("control rejected", control=control, answer=answer.name)
        return answer

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Effect.NOTHING:
                return
            case Effect.STOP:
                _log.info("service stop requested")
                self._want_stop()
            case Effect.IGNORE_AND_STOP:
                _log.warning("shutdown announced before the agent manages pods; pods are not terminated gracefully")
                self._want_stop()
            case Effect.SHUT_DOWN:
                _log.info("shutdown announced; Windows waits for the service")
                self._post(lambda shutdown_handler: shutdown_handler.on_preshutdown())
            case Effect.RELOAD:
                self._post(lambda shutdown_handler: shutdown_handler.on_settings_changed())

    def _want_stop(self) -> None:
        self._stop_wanted.set()
        self._on_loop(self._stop_seen.set)

    def _post(self, call: Callable[[ShutdownHandler], None]) -> None:
        if (shutdown_handler := self._shutdown_handler) is not None:
            self._on_loop(lambda: call(shutdown_handler))

    def _on_loop(self, call: Callable[[], Any]) -> None:
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(call)

    async def _report_progress(self) -> None:
        """Report checkpoints. Each shows that the event loop runs."""
        while True:
            await self._clock.sleep(_PROGRESS_SECONDS)
            with self._lock:
                if self._model.progressed():
                    self._report()

    def _report(self) -> None:
        try:
            self._calls.report(self._model.status)
        except ScmError as error:
            _log.error("cannot report the service status", error=str(error))


async def _awaited(component: Callable[[], Awaitable[None]]) -> None:
    await component()


class WindowsCalls:
    """The calls of Windows. Callbacks never raise into Windows."""

    def __init__(self) -> None:
        self._handle: int | None = None
        self._kept: list[Any] = []  # objects that Windows has pointers to

    def dispatch(self, main: Callable[[str], None]) -> None:
        """Run the dispatcher of Windows on this thread."""

        def run(count: int, arguments: Any) -> None:
            del count
            try:
                main(arguments[0])
            except Exception:  # noqa: BLE001 - Windows cannot handle an exception
                _log.exception("the service failed")

        # Windows ignores the name in the table for a service with its own process.
        table = (ServiceTableEntry * 2)(ServiceTableEntry("", MainProcedure(run)), ServiceTableEntry())
        self._kept.append(table)
        check(advapi().StartServiceCtrlDispatcherW(ctypes.byref(table)), "becoming a service")

    def register(self, name: str, handler: Callable[[int], int]) -> None:
        """Install the handler."""

        def handle(control: int, event: int, data: int | None, context: int | None) -> int:
            del event, data, context
            try:
                return handler(control)
            except Exception:  # noqa: BLE001 - Windows cannot handle an exception
                _log.exception("control handler failed", control=control)
                return Answer.NOT_NOW

        procedure = HandlerProcedure(handle)
        self._kept.append(procedure)
        self._handle = advapi().RegisterServiceCtrlHandlerExW(name, procedure, None)
        check(self._handle, "registering the control handler")

    def report(self, status: Status) -> None:
        """Report the status."""
        own = ServiceStatus(
            service_type=ServiceKind.WIN32_OWN_PROCESS,
            current_state=status.state,
            controls_accepted=status.accepts,
            win32_exit_code=Win32Error.SERVICE_SPECIFIC_ERROR if status.exit_code else 0,
            specific_exit_code=status.exit_code,
            check_point=status.checkpoint,
            wait_hint=status.wait_hint_ms,
        )
        check(advapi().SetServiceStatus(self._handle, ctypes.byref(own)), "reporting the state of the service")
