"""What the parts of the PKI hand to each other. Light: it is loaded at every start, what makes keys is not."""

from __future__ import annotations

import msgspec

__all__ = ["Credentials", "PkiError"]


class PkiError(Exception):
    """Raised when what is in the folder cannot be used; the message names the file and says what to do."""


class Credentials(msgspec.Struct, frozen=True):
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Credentials(certificate={self.certificate!r})"  # keys do not get into logs
