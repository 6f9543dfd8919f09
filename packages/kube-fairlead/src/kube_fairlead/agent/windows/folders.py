"""A folder that only the system and its administrators may read and write.

Under %ProgramData% every user may make files, and owns what he makes. What the agent believes when it starts, and whom
it ends, must not be any user's to write; nor must a folder be his because he made it first. A junction or a symbolic
link that a user left there leads elsewhere: nothing behind it is changed, and the folder is refused.
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

# Owned by the administrators; nothing inherited; full access, for all that is in it, to LocalSystem and to them.
_DESCRIPTOR: Final = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
_REVISION: Final = 1
_OWNER_AND_RIGHTS: Final = 0x1 | 0x4
_REPARSE_POINT: Final = 0x400
_ACCESS: Final = 0x0002_0000 | 0x0004_0000 | 0x0008_0000 | 0x80  # READ_CONTROL, WRITE_DAC, WRITE_OWNER, attributes
_SHARE_ALL: Final = 0x7
_OPEN_EXISTING: Final = 3
# A folder may be opened, and a link is opened itself, not what it leads to.
_BACKUP_AND_OPEN_LINK: Final = 0x0200_0000 | 0x0020_0000
_INVALID_HANDLE: Final = ctypes.c_void_p(-1).value


class LinkFound(OSError):
    """Raised when a folder that is to be protected is, or has in it, a junction or a symbolic link."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is a junction or a symbolic link: remove it (rmdir removes the link alone), then repeat"
        )


def protect(folder: Path) -> None:
    """Make the folder, where there is none, and see to it that it and all that is in it is nobody else's.

    Raises:
        LinkFound: a link is in the way; what it leads to is as it was.
        OSError: that is not possible; ScmError where the system refuses.
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
    """Visit a folder and all that is in it. A folder is visited before it is read: from then on nothing is added.

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
    """Whether it is a reparse point: a junction, a symbolic link or a mount. Python 3.11 knows symbolic links alone."""
    return bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)


def _set(path: Path, descriptor: ctypes.c_void_p) -> None:
    """By a handle of the thing itself: a link that is put in its place meanwhile is opened, seen and refused."""
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
