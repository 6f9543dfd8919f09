"""What the parts of the PKI hand to each other. Light: it is loaded at every start, what makes keys is not."""

from __future__ import annotations

import dataclasses

__all__ = ["Credentials", "PkiError"]


class PkiError(Exception):
    """Raised when what is in the folder cannot be used; the message names the file and says what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
