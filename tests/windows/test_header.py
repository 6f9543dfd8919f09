"""Our structures and numbers against the headers that C programs for Windows are compiled with."""

from __future__ import annotations

import ctypes
import enum
import pathlib
import subprocess

import pytest

from kube_fairlead.agent.windows import control, folders, processes, structures
from tests.windows.conftest import MINGW, Parts

STATUS = (
    "dwServiceType dwCurrentState dwControlsAccepted dwWin32ExitCode dwServiceSpecificExitCode dwCheckPoint dwWaitHint"
)
STRUCTURES: dict[str, tuple[type[ctypes.Structure], str]] = {
    "SERVICE_STATUS": (structures.ServiceStatus, STATUS),
    "SERVICE_STATUS_PROCESS": (structures.ServiceStatusProcess, f"{STATUS} dwProcessId dwServiceFlags"),
    "SERVICE_PRESHUTDOWN_INFO": (structures.PreshutdownInfo, "dwPreshutdownTimeout"),
    "SERVICE_DESCRIPTIONW": (structures.ServiceDescription, "lpDescription"),
    "SC_ACTION": (structures.RecoveryAction, "Type Delay"),
    "SERVICE_FAILURE_ACTIONSW": (
        structures.FailureActions,
        "dwResetPeriod lpRebootMsg lpCommand cActions lpsaActions",
    ),
    "SERVICE_FAILURE_ACTIONS_FLAG": (structures.FailureActionsFlag, "fFailureActionsOnNonCrashFailures"),
    "SERVICE_TABLE_ENTRYW": (structures.ServiceTableEntry, "lpServiceName lpServiceProc"),
    "PROCESSENTRY32W": (
        structures.ProcessEntry,
        (
            "dwSize cntUsage th32ProcessID th32DefaultHeapID th32ModuleID cntThreads th32ParentProcessID "
            "pcPriClassBase dwFlags szExeFile"
        ),
    ),
}

CONSTANTS: dict[type[enum.IntEnum | enum.IntFlag], str] = {
    control.ServiceState: "SERVICE_{}",
    control.Control: "SERVICE_CONTROL_{}",
    control.Accept: "SERVICE_ACCEPT_{}",
    structures.ServiceKind: "SERVICE_{}",
    structures.StartKind: "SERVICE_{}_START",
    structures.Level: "SERVICE_CONFIG_{}",
    structures.Win32Error: "ERROR_{}",
}

NAMED: dict[str, int] = {
    "SC_MANAGER_CONNECT": structures.Access.MANAGER_CONNECT,
    "SC_MANAGER_CREATE_SERVICE": structures.Access.MANAGER_CREATE_SERVICE,
    "SERVICE_QUERY_CONFIG": structures.Access.QUERY_CONFIG,
    "SERVICE_CHANGE_CONFIG": structures.Access.CHANGE_CONFIG,
    "SERVICE_QUERY_STATUS": structures.Access.QUERY_STATUS,
    "SERVICE_START": structures.Access.START,
    "SERVICE_STOP": structures.Access.STOP,
    "DELETE": structures.Access.DELETE,
    "NO_ERROR": control.Answer.DONE,
    "ERROR_CALL_NOT_IMPLEMENTED": control.Answer.UNKNOWN,
    "ERROR_SERVICE_CANNOT_ACCEPT_CTRL": control.Answer.NOT_NOW,
    "SC_ACTION_RESTART": 1,
    "SC_STATUS_PROCESS_INFO": 0,
    "SERVICE_ERROR_NORMAL": 1,
    "TH32CS_SNAPPROCESS": processes._SNAPSHOT_PROCESSES,
    "PROCESS_QUERY_LIMITED_INFORMATION": processes._QUERY_LIMITED,
    "STILL_ACTIVE": processes._STILL_ACTIVE,
    "FILE_ATTRIBUTE_REPARSE_POINT": folders._REPARSE_POINT,
    "FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT": folders._BACKUP_AND_OPEN_LINK,
    "READ_CONTROL | WRITE_DAC | WRITE_OWNER | FILE_READ_ATTRIBUTES": folders._ACCESS,
    "FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE": folders._SHARE_ALL,
    "OPEN_EXISTING": folders._OPEN_EXISTING,
    "OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION": folders._OWNER_AND_RIGHTS,
    "sizeof(BY_HANDLE_FILE_INFORMATION)": 13 * 4,
}


def claims() -> list[str]:
    """Everything that our code takes for granted, as conditions in C."""
    said = []
    for name, (ours, fields) in STRUCTURES.items():
        said.append(f"sizeof({name}) == {ctypes.sizeof(ours)}")
        for (own, *_), theirs in zip(ours._fields_, fields.split(), strict=True):
            place = getattr(ours, own)
            said.append(f"offsetof({name}, {theirs}) == {place.offset}")
            said.append(f"sizeof((({name} *)0)->{theirs}) == {place.size}")
    for kind, pattern in CONSTANTS.items():
        said += [f"{pattern.format(one.name)} == {one.value}" for one in kind if one.value]
    said += [f"({name}) == {int(value)}" for name, value in NAMED.items()]
    return said


def compiled(parts: Parts, folder: pathlib.Path, conditions: list[str]) -> subprocess.CompletedProcess[str]:
    lines = ["#include <stddef.h>", "#include <windows.h>", "#include <winsvc.h>", "#include <tlhelp32.h>"]
    lines += [f'_Static_assert({condition}, "{condition}");' for condition in conditions]
    source = folder / "claims.c"
    source.write_text("\n".join(lines) + "\n")
    command = [str(MINGW), str(parts.folder), "-D_WIN32_WINNT=0x0A00", "-fsyntax-only", str(source)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_structures_and_constants_are_those_of_the_header(parts: Parts, tmp_path: pathlib.Path) -> None:
    said = claims()
    assert len(said) > 70
    result = compiled(parts, tmp_path, said)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("wrong", ["sizeof(SERVICE_STATUS) == 56", "SERVICE_CONTROL_PRESHUTDOWN == 14"])
def test_what_is_not_so_is_found(parts: Parts, tmp_path: pathlib.Path, wrong: str) -> None:
    result = compiled(parts, tmp_path, [wrong])
    assert result.returncode != 0
    assert wrong in result.stderr
