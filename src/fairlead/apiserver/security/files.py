"""Files that only their owner may read, and that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["read_private", "write_private"]


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 so that a crash leaves either the old content or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()  # what a crash left behind; O_EXCL below must not meet it, nor follow a link
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; Windows has no such thing and needs none."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_private(path: Path) -> bytes | None:
    """The content of a file, or None when there is none. One that others may read is closed to them again."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return content
