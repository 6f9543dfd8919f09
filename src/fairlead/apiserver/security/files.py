"""Files that only their owner may read, and that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.base.files import write_atomically

__all__ = ["read_private", "write_private"]


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file of mode 0600, in a folder that is made if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, content, mode=0o600, durable=durable)


def read_private(path: Path) -> bytes | None:
    """The content of a file, or None when there is none. One that others may read is closed to them again."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return content
