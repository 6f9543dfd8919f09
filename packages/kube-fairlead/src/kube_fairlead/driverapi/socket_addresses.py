"""The paths of sockets: their longest length, and the error when another process serves on one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FOLDER_BYTES_MAX", "PATH_BYTES_MAX", "AddressTaken", "AddressTooLong", "check_folder"]

# The kernel allows 108 bytes with the terminating zero. One is for the leading dot of a socket that is not ready.
PATH_BYTES_MAX: Final = 106
# A long driver name is replaced by 16 characters of its hash; "-reg.sock" follows.
FOLDER_BYTES_MAX: Final = PATH_BYTES_MAX - len("/") - 16 - len("-reg.sock")


class AddressTaken(OSError):
    """Raised when another process serves on the path. Its message is written for users."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process already serves {path}; stop it, or start this one with another --instance;"
            " a driver for another node needs its own --registry-dir and --plugin-dir"
        )


class AddressTooLong(ValueError):
    """Raised when the path of a folder is too long for sockets in it. Its message is written for users."""


def check_folder(folder: Path, *, flag: str) -> None:
    """Reject a folder whose path is too long for sockets in it.

    Raises:
        AddressTooLong: the path is too long.
    """
    length = len(bytes(folder.absolute()))
    if length > FOLDER_BYTES_MAX:
        raise AddressTooLong(
            f"{flag} {folder} has {length} bytes; it may have at most {FOLDER_BYTES_MAX}, because the path of a unix"
            f" socket may have at most {PATH_BYTES_MAX + 1}"
        )
