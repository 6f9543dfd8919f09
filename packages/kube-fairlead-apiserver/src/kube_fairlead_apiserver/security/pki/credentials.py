"""Types that the parts of the PKI exchange. Cheap to import.

Every start loads it, but not the code that creates keys.
"""

from __future__ import annotations

import msgspec

__all__ = ["Credentials", "PkiError"]


class PkiError(Exception):
    """Raised when a file of the folder is unusable; the message names the file and says what to do."""


class Credentials(msgspec.Struct, frozen=True):
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Credentials(certificate={self.certificate!r})"  # keys never appear in logs
