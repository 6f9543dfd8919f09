"""Randomness as a thing that is passed in: the operating system's, or a seeded one that can be replayed."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

__all__ = ["Randomness", "SeededRandomness", "SystemRandomness"]

_T = TypeVar("_T")


class Randomness(Protocol):
    """Where jitter, names and keys come from."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""
        ...

    def choice(self, options: Sequence[_T], /) -> _T:
        """One of the options, all equally likely."""
        ...

    def token_bytes(self, count: int) -> bytes:
        """That many random bytes."""
        ...


class SystemRandomness:
    """The operating system's randomness, good enough for keys."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._source.random()

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""
        return self._source.uniform(a, b)

    def choice(self, options: Sequence[_T], /) -> _T:
        """One of the options."""
        return self._source.choice(options)

    def token_bytes(self, count: int) -> bytes:
        """That many random bytes."""
        return os.urandom(count)


class SeededRandomness:
    """The same draws for the same seed, on every machine. For tests and simulation, never for keys."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self._source = random.Random(seed)  # noqa: S311 - replayable on purpose

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._source.random()

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""
        return self._source.uniform(a, b)

    def choice(self, options: Sequence[_T], /) -> _T:
        """One of the options."""
        return self._source.choice(options)

    def token_bytes(self, count: int) -> bytes:
        """That many bytes."""
        return self._source.randbytes(count)

    def fork(self, name: str) -> SeededRandomness:
        """An independent stream for one part, so that a draw more in one part changes nothing in another."""
        return SeededRandomness(f"{self.seed}/{name}")
