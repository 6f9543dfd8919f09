"""Calls of the service control manager: status and preshutdown timeout of a service; create and delete one.

Every call blocks; callers on an event loop use a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kube_fairlead.agent.windows.control import Control
from kube_fairlead.agent.windows.structures import (
    Access,
    FailureActions,
    FailureActionsFlag,
    Level,
    PreshutdownInfo,
    RecoveryAction,
    ServiceDescription,
    ServiceKind,
    ServiceStatus,
    ServiceStatusProcess,
    StartKind,
    Win32Error,
)

__all__ = ["NewService", "ScmError", "ServiceFacts", "ServiceManager", "advapi", "check"]

_STATUS_PROCESS_INFO: Final = 0
_ERROR_NORMAL: Final = 1
_RESTART: Final = 1
_RESTART_DELAYS_MS: Final = (1_000, 5_000, 30_000)  # the third and every later time
_RESET_FAILURES_SECONDS: Final = 24 * 60 * 60


class ScmError(OSError):
    """Raised when a call of the service control manager fails."""

    def __init__(self, step: str, code: int, message: str = "") -> None:
        super().__init__(code, f"{step}: {message or 'error'} (Windows error {code})")
        self.code = code


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """The status of a service. Other services may have states and controls that `control` does not list."""

    state: int
    accepts: int
    checkpoint: int
    wait_hint_ms: int
    exit_code: int
    process_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewService:
    """A service to create."""

    name: str
    display_name: str
    description: str
    command_line: str
    start: StartKind = StartKind.AUTO
    dependencies: Sequence[str] = ()


class ServiceManager:
    """The service control manager of this machine.

    Raises (every method): ScmError.
    """

    def facts(self, name: str) -> ServiceFacts | None:
        """Return the status of a service; None when there is no such service."""
        try:
            with _service(name, Access.QUERY_STATUS) as handle:
                found, needed = ServiceStatusProcess(), ctypes.c_uint32()
                check(
                    advapi().QueryServiceStatusEx(
                        handle, _STATUS_PROCESS_INFO, ctypes.byref(found), ctypes.sizeof(found), ctypes.byref(needed)
                    ),
                    f"reading the status of the service {name}",
                )
        except ScmError as error:
            if error.code == Win32Error.SERVICE_DOES_NOT_EXIST:
                return None
            raise
        return ServiceFacts(
            state=found.current_state,
            accepts=found.controls_accepted,
            checkpoint=found.check_point,
            wait_hint_ms=found.wait_hint,
            exit_code=found.win32_exit_code,
            process_id=found.process_id,
        )

    def preshutdown_timeout_ms(self, name: str) -> int:
        """Return how long Windows waits for the service in a shutdown."""
        with _service(name, Access.QUERY_CONFIG) as handle:
            info, needed = PreshutdownInfo(), ctypes.c_uint32()
            check(
                advapi().QueryServiceConfig2W(
                    handle, Level.PRESHUTDOWN_INFO, ctypes.byref(info), ctypes.sizeof(info), ctypes.byref(needed)
                ),
                f"reading the preshutdown timeout of the service {name}",
            )
            return int(info.timeout_ms)

    def set_preshutdown_timeout_ms(self, name: str, timeout_ms: int) -> None:
        """Set how long Windows waits for the service in a shutdown."""
        with _service(name, Access.CHANGE_CONFIG) as handle:
            _change(handle, Level.PRESHUTDOWN_INFO, PreshutdownInfo(timeout_ms), f"the preshutdown timeout of {name}")

    def start(self, name: str) -> None:
        """Start a service. Returns when it is starting."""
        with _service(name, Access.START) as handle:
            check(advapi().StartServiceW(handle, 0, None), f"starting the service {name}")

    def stop(self, name: str) -> None:
        """Request a service to stop. Returns at once, also when it does not run."""
        with _service(name, Access.STOP) as handle:
            try:
                check(
                    advapi().ControlService(handle, Control.STOP, ctypes.byref(ServiceStatus())),
                    f"stopping the service {name}",
                )
            except ScmError as error:
                if error.code != Win32Error.SERVICE_NOT_ACTIVE:
                    raise

    def create(self, new: NewService) -> list[str]:
        """Create a service that Windows restarts when it fails. Return the settings that this system rejects."""
        dependencies = "".join(f"{name}\0" for name in new.dependencies) + "\0"
        with _manager(Access.MANAGER_CONNECT | Access.MANAGER_CREATE_SERVICE) as manager:
            handle = advapi().CreateServiceW(
                manager,
                new.name,
                new.display_name,
                Access.CHANGE_CONFIG | Access.START,  # setting recovery actions needs the right to start
                ServiceKind.WIN32_OWN_PROCESS,
                new.start,
                _ERROR_NORMAL,
                new.command_line,
                None,
                None,
                ctypes.create_unicode_buffer(dependencies) if new.dependencies else None,
                None,
                None,
            )
            check(handle, f"creating the service {new.name}")
            problems = []
            with _closing(handle):
                for level, info, what in (
                    (Level.DESCRIPTION, ServiceDescription(new.description), "its description"),
                    (Level.FAILURE_ACTIONS, _restarts(), "its recovery actions"),
                    (Level.FAILURE_ACTIONS_FLAG, FailureActionsFlag(1), "its failure flag"),
                ):
                    try:
                        _change(handle, level, info, what)
                    except ScmError as error:
                        problems.append(error.strerror or str(error))
            return problems

    def delete(self, name: str) -> None:
        """Delete a service; a running one is deleted when it has stopped."""
        with _service(name, Access.DELETE) as handle:
            check(advapi().DeleteService(handle), f"deleting the service {name}")


def check(result: Any, step: str) -> None:
    """Raise the last error if a call returned zero."""
    if not result:
        code = ctypes.get_last_error()  # type: ignore[attr-defined]  # exists on Windows only
        raise ScmError(step, code, ctypes.FormatError(code).strip())  # type: ignore[attr-defined]  # likewise


@functools.cache
def advapi() -> Any:
    """Return the library advapi32, with the types of its calls."""
    library = ctypes.WinDLL("advapi32", use_last_error=True)  # type: ignore[attr-defined]  # exists on Windows only
    handle, number, text, pointer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_wchar_p, ctypes.c_void_p
    for name, arguments in {
        "OpenSCManagerW": [text, text, number],
        "OpenServiceW": [handle, text, number],
        "CreateServiceW": [handle, text, text, *[number] * 4, text, text, pointer, pointer, text, text],
        "RegisterServiceCtrlHandlerExW": [text, pointer, pointer],
    }.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = handle
    for name, arguments in {
        "ChangeServiceConfig2W": [handle, number, pointer],
        "CloseServiceHandle": [handle],
        "ControlService": [handle, number, pointer],
        "ConvertStringSecurityDescriptorToSecurityDescriptorW": [text, number, pointer, pointer],
        "DeleteService": [handle],
        "QueryServiceConfig2W": [handle, number, pointer, number, pointer],
        "QueryServiceStatusEx": [handle, number, pointer, number, pointer],
        "SetKernelObjectSecurity": [handle, number, pointer],
        "SetServiceStatus": [handle, pointer],
        "StartServiceCtrlDispatcherW": [pointer],
        "StartServiceW": [handle, number, pointer],
    }.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = ctypes.c_int32
    return library


@contextlib.contextmanager
def _manager(access: Access) -> Iterator[int]:
    handle = advapi().OpenSCManagerW(None, None, access)
    check(handle, "connecting to the service control manager")
    with _closing(handle):
        yield handle


@contextlib.contextmanager
def _service(name: str, access: Access) -> Iterator[int]:
    with _manager(Access.MANAGER_CONNECT) as manager:
        handle = advapi().OpenServiceW(manager, name, access)
        check(handle, f"opening the service {name}")
        with _closing(handle):
            yield handle


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[None]:
    try:
        yield
    finally:
        advapi().CloseServiceHandle(handle)


def _change(handle: int, level: Level, info: ctypes.Structure, what: str) -> None:
    check(advapi().ChangeServiceConfig2W(handle, level, ctypes.byref(info)), f"setting {what}")


def _restarts() -> FailureActions:
    actions = (RecoveryAction * len(_RESTART_DELAYS_MS))(
        *[RecoveryAction(_RESTART, delay) for delay in _RESTART_DELAYS_MS]
    )
    return FailureActions(_RESET_FAILURES_SECONDS, None, None, len(actions), actions)
