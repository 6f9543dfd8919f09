"""This process as a Windows service: the handler is there first, whoever looks after pods attaches later.

The service control manager calls from threads of its own. Here every such call does what must be done at once, which
is to answer and to report the new state, and posts the rest to the event loop.
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

__all__ = ["Attachment", "NotAService", "Service", "ServiceCalls", "WindowsCalls"]

# Often enough for anybody who watches, and well within the hint that every report gives.
_PROGRESS_SECONDS: Final = 1.0
_DISPATCHER_END_SECONDS: Final = 5.0

_log = logs.get_logger(__name__)


class NotAService(Exception):
    """Raised when this process was not started by the service control manager."""


class Attachment(Protocol):
    """Who looks after the pods of this machine. Both are called on the event loop."""

    def go_down(self) -> None:
        """The machine goes down, and waits for this service."""
        ...

    def read_again(self) -> None:
        """The settings of the service were changed."""
        ...


class ServiceCalls(Protocol):
    """What the system offers to a service."""

    def dispatch(self, main: Callable[[str], None]) -> None:
        """Have the system call `main` with the service's name, on a thread of its own. Returns when that has ended.

        Raises:
            ScmError: this process is no service.
        """
        ...

    def register(self, name: str, handler: Callable[[int], int]) -> None:
        """Have it call `handler` for every control; from `main`."""
        ...

    def report(self, status: Status) -> None:
        """Tell it how the service stands."""
        ...


class Service:
    """One service: `start`, then `run` what it is for, then `finish`. Its name is known when it has started."""

    def __init__(self, calls: ServiceCalls, clock: Clock, *, hears_preshutdown: bool = True) -> None:
        self.name = ""
        self._calls = calls
        self._clock = clock
        self._model = ServiceModel(hears_preshutdown=hears_preshutdown)
        self._lock = threading.Lock()  # reports go out in the order of what they tell
        self._began = threading.Event()
        self._ended = threading.Event()
        self._failure: ScmError | None = None
        self._dispatcher: threading.Thread | None = None
        self._attachment: Attachment | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_wanted = threading.Event()
        self._stop_seen = asyncio.Event()

    def start(self) -> None:
        """Become the service. From here on controls are answered.

        Raises:
            NotAService: nobody started this process as one.
            ScmError: the manager refuses.
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
        """Run it until it ends by itself or the service is asked to stop; then it is cancelled."""
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
    def attached(self, attachment: Attachment) -> Iterator[None]:
        """A notice that comes in this block goes to it; one that comes outside only ends the service."""
        self._attachment = attachment
        with self._lock:
            self._model.is_attached = True
        try:
            yield
        finally:
            with self._lock:
                self._model.is_attached = False
            self._attachment = None

    def finish(self, exit_code: int = 0) -> None:
        """The service has done all it was for: the machine need not wait for it. May be called again."""
        with self._lock:
            if self._model.finished(exit_code):
                self._report()
        self._ended.set()
        self._want_stop()

    def join(self) -> None:
        """Wait until the manager has let go of this process, so that its end is no crash."""
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
        _log.info("runs as a Windows service", service=self.name)
        self._began.set()
        self._ended.wait()

    def _handle(self, control: int) -> int:
        with self._lock:
            before = self._model.status
            answer, effect = self._model.heard(control)
            if self._model.status is not before:
                self._report()
        self._carry_out(effect)
        if answer is not Answer.DONE:
            _log.info("a control was refused", control=control, answer=answer.name)
        return answer

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Effect.NOTHING:
                return
            case Effect.STOP:
                _log.info("the service is asked to stop")
                self._want_stop()
            case Effect.IGNORE_AND_STOP:
                _log.warning("the machine goes down before anybody looks after its pods: nothing is done about them")
                self._want_stop()
            case Effect.GO_DOWN:
                _log.info("the machine goes down and waits for the service")
                self._post(lambda attachment: attachment.go_down())
            case Effect.READ_AGAIN:
                self._post(lambda attachment: attachment.read_again())

    def _want_stop(self) -> None:
        self._stop_wanted.set()
        self._on_loop(self._stop_seen.set)

    def _post(self, call: Callable[[Attachment], None]) -> None:
        if (attachment := self._attachment) is not None:
            self._on_loop(lambda: call(attachment))

    def _on_loop(self, call: Callable[[], Any]) -> None:
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # it has just been closed: there is nobody left to tell
                loop.call_soon_threadsafe(call)

    async def _report_progress(self) -> None:
        """Every checkpoint says that the event loop is alive, and with it whoever sees pods out."""
        while True:
            await self._clock.sleep(_PROGRESS_SECONDS)
            with self._lock:
                if self._model.progressed():
                    self._report()

    def _report(self) -> None:
        try:
            self._calls.report(self._model.status)
        except ScmError as error:
            _log.error("the service control manager does not take a report", error=str(error))


async def _awaited(component: Callable[[], Awaitable[None]]) -> None:
    await component()


class WindowsCalls:
    """The calls of this machine. Callbacks never raise into the system."""

    def __init__(self) -> None:
        self._handle: int | None = None
        self._kept: list[Any] = []  # what the system holds pointers to

    def dispatch(self, main: Callable[[str], None]) -> None:
        """Hand this thread to the system."""

        def run(count: int, arguments: Any) -> None:
            del count
            try:
                main(arguments[0])
            except Exception:  # noqa: BLE001 - nobody above this frame can handle it
                _log.exception("the service failed")

        # A service with a process of its own is told its name; the one in the table does not matter.
        table = (ServiceTableEntry * 2)(ServiceTableEntry("", MainProcedure(run)), ServiceTableEntry())
        self._kept.append(table)
        check(advapi().StartServiceCtrlDispatcherW(ctypes.byref(table)), "becoming a service")

    def register(self, name: str, handler: Callable[[int], int]) -> None:
        """Install the handler."""

        def handle(control: int, event: int, data: int | None, context: int | None) -> int:
            del event, data, context
            try:
                return handler(control)
            except Exception:  # noqa: BLE001 - nobody above this frame can handle it
                _log.exception("a control could not be handled", control=control)
                return Answer.NOT_NOW

        procedure = HandlerProcedure(handle)
        self._kept.append(procedure)
        self._handle = advapi().RegisterServiceCtrlHandlerExW(name, procedure, None)
        check(self._handle, "registering the control handler")

    def report(self, status: Status) -> None:
        """Tell the manager."""
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
