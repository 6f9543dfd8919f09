"""The sockets in the plugin registry folder, and when they change.

The folder is scanned every second; inotify, where it exists, only triggers a scan earlier. A change that inotify does
not report is therefore found within a second.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/plugin_manager.go
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import os
import stat
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Final

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["SocketFile", "SocketFolder", "sockets_in"]

# As often as the kubelet's reconciler.
_SCAN_SECONDS: Final = 1.0
# The folder contains sockets, and perhaps a folder per driver; deeper folders are not scanned.
_DEPTH: Final = 3
_INOTIFY_MASK: Final = 0x100 | 0x200 | 0x40 | 0x80 | 0x400 | 0x800  # create, delete, moved from and to, self gone

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SocketFile:
    """One socket. A file that was created again under the same name is a different one."""

    path: Path
    inode: int
    changed_ns: int
    owner: int  # user id


def sockets_in(folder: Path, depth: int = _DEPTH) -> list[SocketFile]:
    """Return the sockets in a folder, sorted by name, without hidden files."""
    return sorted(_scan(folder, depth))


def _scan(folder: Path, depth: int) -> Iterator[SocketFile]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            _log.warning("cannot read the plugin registry folder", folder=str(folder), error=str(error))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        # A file that is removed during the scan is left out.
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if depth > 1:
                    yield from _scan(Path(entry.path), depth - 1)
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISSOCK(found.st_mode):
                yield SocketFile(Path(entry.path), found.st_ino, found.st_ctime_ns, found.st_uid)


class SocketFolder:
    """Watches one folder, and creates it if it is missing."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    async def changes(self) -> AsyncGenerator[list[SocketFile], None]:
        """Yield the sockets in the folder now, and whenever they may have changed."""
        _create(self.path)
        changed = asyncio.Event()
        with _notified(self.path, changed):
            while True:
                changed.clear()
                yield sockets_in(self.path)
                with contextlib.suppress(TimeoutError):
                    async with self._clock.timeout(_SCAN_SECONDS):
                        await changed.wait()


def _create(folder: Path) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)


@contextlib.contextmanager
def _notified(folder: Path, changed: asyncio.Event) -> Iterator[None]:
    """Set the event whenever a file in the folder is added or removed, if the system has inotify."""
    descriptor = _inotify(folder)
    if descriptor is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def readable() -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 65536)
        changed.set()

    loop.add_reader(descriptor, readable)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _inotify(folder: Path) -> int | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _INOTIFY_MASK) < 0:
        _log.info("inotify unavailable; scanning the folder every second", folder=str(folder))
        os.close(descriptor)
        return None
    return descriptor
