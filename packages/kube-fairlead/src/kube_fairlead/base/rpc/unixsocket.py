"""A unix socket that only its owner may use, and that has its name only while a server is ready behind it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["BoundSocket", "SocketTaken"]


class SocketTaken(OSError):
    """Raised for a socket that another process serves, which is not pushed aside."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process serves {path}")
        self.path = path


class BoundSocket:
    """Listens on a path from its making on.

    The name appears when the socket can be connected to: a process that watches the folder connects at once. A socket
    that a killed process left behind is replaced. Nothing is waited for, so that two servers that begin at once do not
    meet in between.

    Raises:
        SocketTaken: another process serves there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = _listen(path)
        self._inode = _inode(path)

    def remove(self) -> None:
        """Remove the name, unless it is another process' by now."""
        if _inode(self.path) == self._inode:
            self.path.unlink(missing_ok=True)


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_served(path):
        raise SocketTaken(path)
    # Names that begin with a point are ignored by those who watch the folder.
    hidden = path.with_name(f".{path.name}")
    hidden.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(hidden))
        listening.listen()
        hidden.replace(path)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            # Another user's, or one with too much to do to answer now: a process serves it in any case.
            return True
    return True


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
