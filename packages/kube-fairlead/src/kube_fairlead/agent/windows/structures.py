"""The structures and numbers of `winsvc.h` and `tlhelp32.h` that the agent uses; a test compares them with the headers.

Every integer is a `c_uint32`: `ctypes.wintypes.DWORD` is 8 bytes long on Linux, where the same tests run.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any, Final

__all__ = [
    "Access",
    "FailureActions",
    "FailureActionsFlag",
    "HandlerProcedure",
    "Level",
    "MainProcedure",
    "PreshutdownInfo",
    "ProcessEntry",
    "RecoveryAction",
    "ServiceDescription",
    "ServiceKind",
    "ServiceStatus",
    "ServiceStatusProcess",
    "ServiceTableEntry",
    "StartKind",
    "Win32Error",
]

# 64-bit Windows has one calling convention, so the portable type works where the other one does not exist.
_PROCEDURE: Final[Any] = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)

MainProcedure: Final[Any] = _PROCEDURE(None, ctypes.c_uint32, ctypes.POINTER(ctypes.c_wchar_p))
HandlerProcedure: Final[Any] = _PROCEDURE(
    ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p
)


class ServiceKind(enum.IntEnum):
    """The kind of a service's process."""

    WIN32_OWN_PROCESS = 0x10


class StartKind(enum.IntEnum):
    """When a service starts."""

    AUTO = 2
    DEMAND = 3


class Access(enum.IntFlag):
    """Access rights to a service or the service control manager."""

    MANAGER_CONNECT = 0x1
    MANAGER_CREATE_SERVICE = 0x2
    QUERY_CONFIG = 0x1
    CHANGE_CONFIG = 0x2
    QUERY_STATUS = 0x4
    START = 0x10
    STOP = 0x20
    DELETE = 0x10000


class Level(enum.IntEnum):
    """The optional settings of a service."""

    DESCRIPTION = 1
    FAILURE_ACTIONS = 2
    FAILURE_ACTIONS_FLAG = 4
    PRESHUTDOWN_INFO = 7


class Win32Error(enum.IntEnum):
    """The Windows errors that the agent handles."""

    INSUFFICIENT_BUFFER = 122
    SERVICE_DOES_NOT_EXIST = 1060
    SERVICE_NOT_ACTIVE = 1062
    FAILED_SERVICE_CONTROLLER_CONNECT = 1063  # this process is not a service
    SERVICE_SPECIFIC_ERROR = 1066  # the exit code is specific to the service


class ServiceStatus(ctypes.Structure):
    """SERVICE_STATUS: what a service reports."""

    _fields_ = (
        ("service_type", ctypes.c_uint32),
        ("current_state", ctypes.c_uint32),
        ("controls_accepted", ctypes.c_uint32),
        ("win32_exit_code", ctypes.c_uint32),
        ("specific_exit_code", ctypes.c_uint32),
        ("check_point", ctypes.c_uint32),
        ("wait_hint", ctypes.c_uint32),
    )


class ServiceStatusProcess(ctypes.Structure):
    """SERVICE_STATUS_PROCESS: the status of a service."""

    _fields_ = (
        *ServiceStatus._fields_,
        ("process_id", ctypes.c_uint32),
        ("service_flags", ctypes.c_uint32),
    )


class PreshutdownInfo(ctypes.Structure):
    """SERVICE_PRESHUTDOWN_INFO: how long Windows waits for the service."""

    _fields_ = (("timeout_ms", ctypes.c_uint32),)


class ServiceDescription(ctypes.Structure):
    """SERVICE_DESCRIPTIONW."""

    _fields_ = (("description", ctypes.c_wchar_p),)


class RecoveryAction(ctypes.Structure):
    """SC_ACTION: what happens when the service fails; 1 restarts it."""

    _fields_ = (("type", ctypes.c_uint32), ("delay_ms", ctypes.c_uint32))


class FailureActions(ctypes.Structure):
    """SERVICE_FAILURE_ACTIONSW."""

    _fields_ = (
        ("reset_period_seconds", ctypes.c_uint32),
        ("reboot_message", ctypes.c_wchar_p),
        ("command", ctypes.c_wchar_p),
        ("count", ctypes.c_uint32),
        ("actions", ctypes.POINTER(RecoveryAction)),
    )


class FailureActionsFlag(ctypes.Structure):
    """SERVICE_FAILURE_ACTIONS_FLAG: whether a stop with an error counts as a failure, like a crash."""

    _fields_ = (("on_error_exits", ctypes.c_uint32),)


class ServiceTableEntry(ctypes.Structure):
    """SERVICE_TABLE_ENTRYW: the main procedure of a service."""

    _fields_ = (("name", ctypes.c_wchar_p), ("main", MainProcedure))


class ProcessEntry(ctypes.Structure):
    """PROCESSENTRY32W: one process of a snapshot."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("usage", ctypes.c_uint32),
        ("process_id", ctypes.c_uint32),
        ("heap_id", ctypes.c_uint64),
        ("module_id", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("parent_id", ctypes.c_uint32),
        ("priority", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("name", ctypes.c_uint16 * 260),  # a wide character is 4 bytes long on Linux
    )

    @property
    def executable(self) -> str:
        """The name of its executable file."""
        return bytes(self.name).decode("utf-16-le", errors="replace").partition("\0")[0]
