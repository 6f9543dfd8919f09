"""A folder that only the system and its administrators may read and write.

Under %ProgramData% every user may make files, and owns what he makes. What the agent believes when it starts, and whom
it ends, must not be any user's to write; nor must a folder be his because he made it first.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

from fairlead.agent.windows.scm import advapi, check

__all__ = ["protect"]

# Owned by the administrators; nothing inherited; full access, for all that is in it, to LocalSystem and to them.
_DESCRIPTOR: Final = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
_REVISION: Final = 1
_OWNER_AND_RIGHTS: Final = 0x1 | 0x4


def protect(folder: Path) -> None:
    """Make the folder, where there is none, and see to it that it and all that is in it is nobody else's.

    Raises:
        OSError: that is not possible; ScmError where the system refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library, descriptor = advapi(), ctypes.c_void_p()
    convert = library.ConvertStringSecurityDescriptorToSecurityDescriptorW
    check(convert(_DESCRIPTOR, _REVISION, ctypes.byref(descriptor), None), f"protecting {folder}")
    try:
        # The folder first: from then on nobody else puts anything there.
        _set(folder, descriptor)
        for path in folder.rglob("*"):
            _set(path, descriptor)
    finally:
        ctypes.WinDLL("kernel32").LocalFree(descriptor)  # type: ignore[attr-defined]  # exists on Windows only


def _set(path: Path, descriptor: ctypes.c_void_p) -> None:
    check(advapi().SetFileSecurityW(str(path), _OWNER_AND_RIGHTS, descriptor), f"protecting {path}")
