"""A folder that only the system and its administrators may read and write.

Under %ProgramData% every user may create files and owns them. No other user may write the state that the agent reads at
its start, nor own the folder because of creating it first. A junction or a symbolic link in the folder points
elsewhere: nothing behind it is changed, and the folder is rejected.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kube_fairlead.agent.windows.scm import advapi, check

__all__ = ["LinkFound", "protect", "walk"]

# Owner: administrators. No inherited rights. Full access for LocalSystem and administrators, inherited by all contents.
_DESCRIPTOR: Final = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
_REVISION: Final = 1
_OWNER_AND_RIGHTS: Final = 0x1 | 0x4
_REPARSE_POINT: Final = 0x400
_ACCESS: Final = 0x0002_0000 | 0x0004_0000 | 0x0008_0000 | 0x80  # READ_CONTROL, WRITE_DAC, WRITE_OWNER, attributes
_SHARE_ALL: Final = 0x7
_OPEN_EXISTING: Final = 3
# Open folders too, and open a link itself, not its target.
_BACKUP_AND_OPEN_LINK: Final = 0x0200_0000 | 0x0020_0000
_INVALID_HANDLE: Final = ctypes.c_void_p(-1).value


class LinkFound(OSError):
    """Raised when the folder to protect is, or contains, a junction or a symbolic link."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is a junction or a symbolic link: remove it (rmdir removes the link alone), then repeat"
        )


def protect(folder: Path) -> None:
    """Create the folder if it is missing, and set the owner and the rights of it and all its contents.

    Raises:
        LinkFound: the folder is or contains a link; its target is not changed.
        OSError: it failed; ScmError if Windows rejected a call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library, descriptor = advapi(), ctypes.c_void_p()
    convert = library.ConvertStringSecurityDescriptorToSecurityDescriptorW
    check(convert(_DESCRIPTOR, _REVISION, ctypes.byref(descriptor), None), f"protecting {folder}")
    try:
        walk(folder, lambda path: _set(path, descriptor))
    finally:
        _kernel().LocalFree(descriptor)


def walk(folder: Path, visit: Callable[[Path], None]) -> None:
    """Visit a folder and all its contents. A folder is protected before it is read, so that no user adds to it.

    Raises:
        LinkFound: one of them is a link; it is not visited.
    """
    if _leads_elsewhere(folder.lstat()) or folder.is_symlink():
        raise LinkFound(folder)
    visit(folder)
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_symlink() or _leads_elsewhere(entry.stat(follow_symlinks=False)):
                    raise LinkFound(Path(entry.path))
                visit(Path(entry.path))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def _leads_elsewhere(status: Any) -> bool:
    """Whether it is a reparse point: junction, symbolic link or mount. Python 3.11 only detects symbolic links."""
    return bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)


def _set(path: Path, descriptor: ctypes.c_void_p) -> None:
    """Set owner and rights by a handle, so that a link that replaces the path meanwhile is detected and rejected."""
    with _opened(path) as handle:
        information = (ctypes.c_uint32 * 13)()  # BY_HANDLE_FILE_INFORMATION; the first number is the attributes
        check(_kernel().GetFileInformationByHandle(handle, information), f"protecting {path}")
        if information[0] & _REPARSE_POINT:
            raise LinkFound(path)
        check(advapi().SetKernelObjectSecurity(handle, _OWNER_AND_RIGHTS, descriptor), f"protecting {path}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    library = _kernel()
    handle = library.CreateFileW(str(path), _ACCESS, _SHARE_ALL, None, _OPEN_EXISTING, _BACKUP_AND_OPEN_LINK, None)
    check(handle != _INVALID_HANDLE, f"protecting {path}")
    try:
        yield handle
    finally:
        library.CloseHandle(handle)


def _kernel() -> Any:
    library = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]  # exists on Windows only
    handle, number, pointer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p
    library.CreateFileW.argtypes = [ctypes.c_wchar_p, number, number, pointer, number, number, handle]
    library.CreateFileW.restype = handle
    library.GetFileInformationByHandle.argtypes = [handle, pointer]
    library.GetFileInformationByHandle.restype = ctypes.c_int32
    library.CloseHandle.argtypes = [handle]
    library.LocalFree.argtypes = [pointer]
    library.LocalFree.restype = pointer
    return library
