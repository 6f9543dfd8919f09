"""Which sockets are in the registry folder, and when that changes.

The folder is read again and again; inotify, where there is one, only says when that is worthwhile. So nothing is
missed where inotify cannot see, and nothing but a delay of a second is lost where it does not exist.

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

# As often as the kubelet's own reconciler.
_SCAN_SECONDS: Final = 1.0
# A folder is for sockets, and perhaps a folder per driver; whatever lies deeper is not looked for.
_DEPTH: Final = 3
_INOTIFY_MASK: Final = 0x100 | 0x200 | 0x40 | 0x80 | 0x400 | 0x800  # create, delete, moved from and to, self gone

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SocketFile:
    """One socket. A file that was created anew under the same name is another one."""

    path: Path
    inode: int
    changed_ns: int
    owner: int  # user id


def sockets_in(folder: Path, depth: int = _DEPTH) -> list[SocketFile]:
    """The sockets in a folder, by name; those whose name begins with a point are nobody's business."""
    return sorted(_scan(folder, depth))


def _scan(folder: Path, depth: int) -> Iterator[SocketFile]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            _log.warning("cannot read the registry folder", folder=str(folder), error=str(error))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        # What vanishes while we look was not there.
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if depth > 1:
                    yield from _scan(Path(entry.path), depth - 1)
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISSOCK(found.st_mode):
                yield SocketFile(Path(entry.path), found.st_ino, found.st_ctime_ns, found.st_uid)


class SocketFolder:
    """Watches one folder, which is made when it is not there."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    async def changes(self) -> AsyncGenerator[list[SocketFile], None]:
        """What is in the folder: now, and whenever it may have changed."""
        _make(self.path)
        news = asyncio.Event()
        with _notified(self.path, news):
            while True:
                news.clear()
                yield sockets_in(self.path)
                with contextlib.suppress(TimeoutError):
                    async with self._clock.timeout(_SCAN_SECONDS):
                        await news.wait()


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)


@contextlib.contextmanager
def _notified(folder: Path, news: asyncio.Event) -> Iterator[None]:
    """Set the event whenever a name in the folder comes or goes, if the system can tell."""
    descriptor = _inotify(folder)
    if descriptor is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def readable() -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 65536)
        news.set()

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
        _log.info("no inotify here; the folder is read every second", folder=str(folder))
        os.close(descriptor)
        return None
    return descriptor
