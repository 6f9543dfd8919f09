"""Identifiers as a thing that is passed in: object UIDs and the random tail of generated names."""

from __future__ import annotations

from typing import Protocol

from kube_fairlead.base.randomness import Randomness

__all__ = ["NAME_SUFFIX_ALPHABET", "NAME_SUFFIX_LENGTH", "Ids", "RandomIds"]

# Kubernetes' own: no vowels and none of 0, 1, 3, so that no word and no look-alike comes out.
NAME_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NAME_SUFFIX_LENGTH = 5
_UUIDS_AT_ONCE = 64


class Ids(Protocol):
    """Where new identifiers come from."""

    def uuid(self) -> str:
        """A random (version 4) UUID in its usual spelling."""
        ...

    def name_suffix(self) -> str:
        """What the API server appends to `metadata.generateName`."""
        ...


class RandomIds:
    """Identifiers drawn from a source of randomness."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._drawn = b""  # not used up yet: one draw for many, since every draw is a call into the system
        self._used = 0

    def uuid(self) -> str:
        """A version 4 UUID."""
        if self._used == len(self._drawn):
            self._drawn, self._used = self._randomness.token_bytes(16 * _UUIDS_AT_ONCE), 0
        raw = bytearray(self._drawn[self._used : self._used + 16])
        self._used += 16
        raw[6] = raw[6] & 0x0F | 0x40  # version 4
        raw[8] = raw[8] & 0x3F | 0x80  # RFC 9562 variant
        digits = raw.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def name_suffix(self) -> str:
        """Five characters of Kubernetes' alphabet."""
        return "".join(self._randomness.choice(NAME_SUFFIX_ALPHABET) for _ in range(NAME_SUFFIX_LENGTH))
