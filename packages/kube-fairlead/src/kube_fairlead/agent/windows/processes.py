"""The processes of a service: its own, and its descendants.

A program that is not a service itself often runs under a service wrapper (nssm, WinSW): the service's process is then
the wrapper, and the program is its child.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import signal
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kube_fairlead.agent.windows.scm import check
from kube_fairlead.agent.windows.structures import ProcessEntry

__all__ = ["Process", "Processes", "tree_of"]

_SNAPSHOT_PROCESSES: Final = 0x2
_INVALID_HANDLE: Final = ctypes.c_void_p(-1).value
_QUERY_LIMITED: Final = 0x1000
_STILL_ACTIVE: Final = 259


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One process. Windows reuses process ids; with its creation time a process is unique."""

    process_id: int
    parent_id: int
    created: int = 0  # as FILETIME; 0: unknown
    name: str = ""


def tree_of(process_id: int, processes: Iterable[Process]) -> list[Process]:
    """Return a process and all its descendants, parents first.

    A process that is older than its parent id's process was started by an earlier process with that id, and is not part
    of the tree.
    """
    by_id = {one.process_id: one for one in processes}
    if process_id not in by_id:
        return []
    tree = [by_id[process_id]]
    for parent in tree:  # grows while it is walked
        tree.extend(
            one
            for one in by_id.values()
            if one.parent_id == parent.process_id and one not in tree and one.created >= parent.created
        )
    return tree


class Processes:
    """The processes of this machine.

    Raises (every method): OSError.
    """

    def tree(self, process_id: int) -> Sequence[Process]:
        """Return a process and all its descendants, parents first; empty when there is no such process."""
        return tree_of(process_id, self._all())

    def end(self, process: Process) -> bool:
        """Terminate a process. Return whether it was running."""
        if not self._lives(process):
            return False
        # On Windows this is TerminateProcess, whatever the signal.
        os.kill(process.process_id, signal.SIGTERM)
        return True

    def _lives(self, process: Process) -> bool:
        times = _times(process.process_id)
        return times is not None and (not process.created or times == process.created)

    def _all(self) -> list[Process]:
        library = _kernel()
        snapshot = library.CreateToolhelp32Snapshot(_SNAPSHOT_PROCESSES, 0)
        check(snapshot != _INVALID_HANDLE, "listing the processes")
        found = []
        try:
            entry = ProcessEntry(size=ctypes.sizeof(ProcessEntry))
            more = library.Process32FirstW(snapshot, ctypes.byref(entry))
            while more:
                process_id = int(entry.process_id)
                created = _times(process_id) or 0
                found.append(Process(process_id, int(entry.parent_id), created, entry.executable))
                more = library.Process32NextW(snapshot, ctypes.byref(entry))
        finally:
            library.CloseHandle(snapshot)
        return found


def _times(process_id: int) -> int | None:
    """Return the creation time of a running process; None when it does not run or cannot be opened."""
    library = _kernel()
    handle = library.OpenProcess(_QUERY_LIMITED, 0, process_id)
    if not handle:
        return None
    try:
        code = ctypes.c_uint32()
        created, ended, kernel, user = (ctypes.c_uint64() for _ in range(4))
        if not library.GetExitCodeProcess(handle, ctypes.byref(code)) or code.value != _STILL_ACTIVE:
            return None
        moments = [ctypes.byref(one) for one in (created, ended, kernel, user)]
        return int(created.value) if library.GetProcessTimes(handle, *moments) else None
    finally:
        library.CloseHandle(handle)


def _kernel() -> Any:
    library = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]  # exists on Windows only
    handle, number, pointer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p
    library.CreateToolhelp32Snapshot.argtypes = [number, number]
    library.CreateToolhelp32Snapshot.restype = handle
    library.OpenProcess.argtypes = [number, ctypes.c_int32, number]
    library.OpenProcess.restype = handle
    for name, arguments in {
        "Process32FirstW": [handle, pointer],
        "Process32NextW": [handle, pointer],
        "GetExitCodeProcess": [handle, pointer],
        "GetProcessTimes": [handle, pointer, pointer, pointer, pointer],
        "CloseHandle": [handle],
    }.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = ctypes.c_int32
    return library
