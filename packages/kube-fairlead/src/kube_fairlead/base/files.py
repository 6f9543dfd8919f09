"""Files that are whole or not there, and locks that end with their process. The same on Linux and Windows."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["FileLock", "LockTaken", "as_file", "sync_folder", "write_atomically"]

_SCANNER_PAUSES_SECONDS: Final = (0.005, 0.01, 0.02, 0.04)  # together so short that even an event loop may wait


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """A path to this content, perhaps a secret, for as long as the block lasts; for a library that reads files only."""
    descriptors = Path("/proc/self/fd")
    if hasattr(os, "memfd_create") and descriptors.is_dir():
        # Needs no folder that could be written to, and leaves nothing on a disk.
        descriptor = os.memfd_create("content")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield str(descriptors / str(descriptor))
        return
    import tempfile  # with shutil and its compressors it is 0.7 MB, which Linux does not need

    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        path = Path(folder) / "content"
        write_atomically(path, content, durable=False)
        yield str(path)


def write_atomically(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a file so that readers see either the old content or the new one.

    Durable: this also holds after a crash of the machine, and once this returns it is the new file. Not durable is
    right for content that its reader checks and can create again; it costs no wait for the disk.
    """
    temporary = path.with_name(f".{path.name}.new")
    # What a crash left behind; the exclusive creation below must not meet it, nor follow a link.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def _replace(source: Path, target: Path) -> None:
    # On Windows an open file cannot be replaced: a virus scanner may hold it open for a moment.
    for pause_seconds in () if os.name == "posix" else _SCANNER_PAUSES_SECONDS:
        try:
            source.replace(target)
        except PermissionError:
            time.sleep(pause_seconds)
        else:
            return
    source.replace(target)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable; Windows has no such thing and needs none."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockTaken(OSError):
    """Another process holds the lock."""


class FileLock:
    """An exclusive lock on a file, held from construction to `close`, or until the process ends."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise LockTaken(f"{path} is locked by another process") from error

    def close(self) -> None:
        """Release the lock."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


if os.name == "posix":
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # exists on Windows only
