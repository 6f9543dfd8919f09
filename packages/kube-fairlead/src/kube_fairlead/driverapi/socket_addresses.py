"""How long the path of a socket may be, and what is said when somebody else serves there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FOLDER_BYTES_MAX", "PATH_BYTES_MAX", "AddressTaken", "AddressTooLong", "check_folder"]

# The kernel takes 108 bytes with a terminating zero; one is kept for the leading point of a socket that is not ready.
PATH_BYTES_MAX: Final = 106
# A driver whose name is long has 16 letters made of it, and "-reg.sock" after them.
FOLDER_BYTES_MAX: Final = PATH_BYTES_MAX - len("/") - 16 - len("-reg.sock")


class AddressTaken(OSError):
    """Raised for a socket that another process serves, which is not pushed aside. Its text is for people."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process serves {path} already; stop it, or have this one serve beside it with another --instance;"
            " the driver of another node needs a --registry-dir and a --plugin-dir of its own"
        )


class AddressTooLong(ValueError):
    """Raised for a folder whose path leaves no room for the sockets in it. Its text is for people."""


def check_folder(folder: Path, *, flag: str) -> None:
    """Refuse a folder in which no socket could be bound, whatever its name.

    Raises:
        AddressTooLong: it is one.
    """
    length = len(bytes(folder.absolute()))
    if length > FOLDER_BYTES_MAX:
        raise AddressTooLong(
            f"{flag} {folder} has {length} bytes; it may have at most {FOLDER_BYTES_MAX}, because the path of a unix"
            f" socket may have at most {PATH_BYTES_MAX + 1}"
        )
