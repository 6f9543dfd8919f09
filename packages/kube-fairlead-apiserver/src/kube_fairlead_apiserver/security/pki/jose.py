"""JOSE's encoding of bytes, and the interface of a signing key. Cheap to import.

Every start loads it, but not the keys.
"""

from __future__ import annotations

import base64
from typing import Any, Protocol

__all__ = ["TokenKey", "base64url", "from_base64url"]


class TokenKey(Protocol):
    """Signs tokens, and verifies those it signed."""

    @property
    def algorithm(self) -> str:
        """The algorithm's name in JOSE."""
        ...

    @property
    def key_id(self) -> str:
        """The identifier of the key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature in JOSE's form."""
        ...

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether the signature is this key's."""
        ...

    def jwk(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key."""
        ...


def base64url(data: bytes) -> str:
    """Encode as base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """Decode base64 for URLs; ValueError if it is not base64 or has padding."""
    if not text.isascii() or any(char in text for char in "=+/"):
        raise ValueError("not unpadded base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
