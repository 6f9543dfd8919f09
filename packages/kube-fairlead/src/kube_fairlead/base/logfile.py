"""A file for log lines that never fills the disk: when it is full it is set aside, and what was aside before goes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

__all__ = ["LogFile"]

_BYTES_MAX: Final = 16 << 20


class LogFile:
    """What `logs.configure` writes to where there is no standard error, as in a Windows service.

    Every line is in the file when `write` returns. A disk that fails costs log lines and nothing else.
    """

    def __init__(self, path: Path, *, bytes_max: int = _BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()

    def write(self, text: str) -> int:
        """Append, on a new page when this one is full."""
        if self._file.tell() >= self._bytes_max:
            self._file.close()
            # Windows renames no open file, so it is closed first.
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file = self._open()
        self._file.write(text.encode("utf-8", errors="replace"))
        self._file.flush()
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> io.BufferedWriter:
        file = self._path.open("ab")
        file.seek(0, io.SEEK_END)
        return file
