"""Asking the service control manager: how a service stands, how long the machine waits for it; making and removing one.

Every call blocks for a moment; callers on an event loop use a thread.
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
_FORGIVEN_AFTER_SECONDS: Final = 24 * 60 * 60


class ScmError(OSError):
    """Raised when the service control manager does not do what it is asked to."""

    def __init__(self, step: str, code: int, words: str = "") -> None:
        super().__init__(code, f"{step}: {words or 'error'} (Windows error {code})")
        self.code = code


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """What the manager knows of a service. The numbers are those of `control`, and of services that can do more."""

    state: int
    accepts: int
    checkpoint: int
    wait_hint_ms: int
    exit_code: int
    process_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewService:
    """A service that is to be made."""

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
        """How a service stands; None when there is none of that name."""
        try:
            with _service(name, Access.QUERY_STATUS) as handle:
                found, needed = ServiceStatusProcess(), ctypes.c_uint32()
                check(
                    advapi().QueryServiceStatusEx(
                        handle, _STATUS_PROCESS_INFO, ctypes.byref(found), ctypes.sizeof(found), ctypes.byref(needed)
                    ),
                    f"asking how the service {name} stands",
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
        """How long the machine waits for the service when it goes down."""
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
        """Have the machine wait so long."""
        with _service(name, Access.CHANGE_CONFIG) as handle:
            _change(handle, Level.PRESHUTDOWN_INFO, PreshutdownInfo(timeout_ms), f"the preshutdown timeout of {name}")

    def start(self, name: str) -> None:
        """Start it; returns when it is on its way."""
        with _service(name, Access.START) as handle:
            check(advapi().StartServiceW(handle, 0, None), f"starting the service {name}")

    def stop(self, name: str) -> None:
        """Ask it to stop; returns when it has been asked, or does not run."""
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
        """Make a service that is started again when it fails. What this system does not let be set is returned."""
        dependencies = "".join(f"{name}\0" for name in new.dependencies) + "\0"
        with _manager(Access.MANAGER_CONNECT | Access.MANAGER_CREATE_SERVICE) as manager:
            handle = advapi().CreateServiceW(
                manager,
                new.name,
                new.display_name,
                Access.CHANGE_CONFIG | Access.START,  # one that may start it is needed to set recovery actions
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
            check(handle, f"making the service {new.name}")
            problems = []
            with _closing(handle):
                for level, info, what in (
                    (Level.DESCRIPTION, ServiceDescription(new.description), "its description"),
                    (Level.FAILURE_ACTIONS, _restarts(), "what happens when it fails"),
                    (Level.FAILURE_ACTIONS_FLAG, FailureActionsFlag(1), "what counts as a failure"),
                ):
                    try:
                        _change(handle, level, info, what)
                    except ScmError as error:
                        problems.append(error.strerror or str(error))
            return problems

    def delete(self, name: str) -> None:
        """Remove it; one that runs is gone when it has stopped."""
        with _service(name, Access.DELETE) as handle:
            check(advapi().DeleteService(handle), f"removing the service {name}")


def check(result: Any, step: str) -> None:
    """Raise the error of a call that returned nothing."""
    if not result:
        code = ctypes.get_last_error()  # type: ignore[attr-defined]  # exists on Windows only
        raise ScmError(step, code, ctypes.FormatError(code).strip())  # type: ignore[attr-defined]  # likewise


@functools.cache
def advapi() -> Any:
    """The library that has the calls, with their types."""
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
    check(handle, "reaching the service control manager")
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
    return FailureActions(_FORGIVEN_AFTER_SECONDS, None, None, len(actions), actions)
