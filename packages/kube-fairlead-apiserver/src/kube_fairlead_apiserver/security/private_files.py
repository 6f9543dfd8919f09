"""Files with mode 0600 that are written atomically."""

from __future__ import annotations

import os
from pathlib import Path

from kube_fairlead.base import logs
from kube_fairlead.base.files import write_atomically

__all__ = ["close_to_others", "read_private", "write_private"]

_log = logs.get_logger(__name__)


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file of mode 0600; its folder is created if it is missing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, content, mode=0o600, durable=durable)


def read_private(path: Path) -> bytes | None:
    """Return the content of a file, or None when there is none. Its permissions are restricted to the owner."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    close_to_others(path)
    return content


def close_to_others(path: Path) -> None:
    """Restrict a file to its owner, and log it: copied files often lose their mode."""
    mode = path.stat().st_mode & 0o777
    if os.name != "posix" or not mode & 0o077:
        return
    try:
        path.chmod(0o600)
    except PermissionError:
        _log.warning("file is accessible to other users and owned by another user", path=str(path), mode=f"{mode:04o}")
    else:
        _log.warning("file permissions restricted to the owner", path=str(path), mode=f"{mode:04o}")
