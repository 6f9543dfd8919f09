"""A disk for SQLite that keeps what was synced, and of everything else what chance lets it: as one that loses power."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import apsw

__all__ = ["Disk"]

_SECTOR = 512


@dataclasses.dataclass
class File:
    """What programs see of a file, what is safe, and what has been written since."""

    seen: bytearray
    safe: bytes = b""
    unsafe: list[tuple[int, bytes | None]] = dataclasses.field(default_factory=list)  # None: cut off there

    def write(self, offset: int, data: bytes) -> None:
        _put(self.seen, offset, data)
        self.unsafe.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.seen[size:]
        self.unsafe.append((size, None))

    def sync(self) -> None:
        self.safe = bytes(self.seen)
        self.unsafe.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Each write since the last sync has happened, or not, or in part; the later ones no less than the earlier."""
        left = bytearray(self.safe)
        for offset, data in self.unsafe:
            fate = chance.random()
            if data is None:
                if fate < 0.5:
                    del left[offset:]
            elif fate < 0.4:
                _put(left, offset, data)
            elif fate < 0.7:
                sectors = chance.randrange(len(data) // _SECTOR + 1)
                _put(left, offset, data[: sectors * _SECTOR])
        self.seen = left
        self.sync()


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """All files of one machine. After `operations_left` writes and syncs it is gone, until the power is back."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "unix")
        self.name = name
        self.files: dict[str, File] = {}
        self.operations_left: int | None = None

    def lose_power(self, chance: random.Random) -> None:
        self.operations_left = None
        for file in self.files.values():
            file.lose_power(chance)

    def work(self) -> None:
        """One more operation; or none any more."""
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise apsw.IOError("the power is gone")

    # What SQLite asks of a file system.

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name for it
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        flags[1] = flags[0]
        return _Handle(self, self.files.setdefault(path, File(bytearray())))

    def xAccess(self, path: str, flags: int) -> bool:  # noqa: N802 - SQLite's name
        del flags
        return path in self.files

    def xDelete(self, path: str, sync: bool) -> None:  # noqa: N802 - SQLite's name
        del sync
        self.work()
        self.files.pop(path, None)

    def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
        return name


class _Handle:
    """An open file. Nobody else has it, so locks are granted."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        return bytes(self._file.seen[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.work()
        self._file.write(offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.work()
        self._file.truncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        del flags
        self._disk.work()
        self._file.sync()

    def xFileSize(self) -> int:  # noqa: N802 - SQLite's name
        return len(self._file.seen)

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        """Granted."""

    def xUnlock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        """Given back."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802 - SQLite's name
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802 - SQLite's name
        del op, pointer
        return False

    def xSectorSize(self) -> int:  # noqa: N802 - SQLite's name
        return _SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802 - SQLite's name
        return 0  # it promises nothing

    def xClose(self) -> None:  # noqa: N802 - SQLite's name
        """Nothing is kept for it."""
