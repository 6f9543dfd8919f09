"""How long to wait before trying again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kube_fairlead.base.randomness import Randomness

__all__ = ["Backoff", "Delays"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A schedule of growing delays: a value that can be a default, a flag or a constant.

    Jitter is the fraction of a delay that chance may take away: with 0.2 a delay of 10 s becomes 8 to 10 s.
    It only ever shortens, so that the cap is one.
    """

    initial_seconds: float = 0.5
    factor: float = 2.0
    cap_seconds: float = 30.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.initial_seconds <= 0:
            raise ValueError("initial_seconds must be positive")
        if self.factor < 1:
            raise ValueError("factor must be at least 1")
        if self.cap_seconds < self.initial_seconds:
            raise ValueError("cap_seconds must be at least initial_seconds")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter must be between 0 and 1")

    def ceiling(self, attempt: int) -> float:
        """The longest that delay number `attempt` (from 0) can be."""
        try:
            return min(self.cap_seconds, self.initial_seconds * self.factor**attempt)
        except OverflowError:
            return self.cap_seconds

    def delay(self, attempt: int, randomness: Randomness) -> float:
        """Delay number `attempt` (from 0), with its jitter drawn."""
        ceiling = self.ceiling(attempt)
        return ceiling - ceiling * self.jitter * randomness.random()

    def delays(self, randomness: Randomness) -> Delays:
        """An endless iterator over the delays of one thing that is tried again and again."""
        return Delays(self, randomness)


class Delays(Iterator[float]):
    """Where one series of attempts stands. `reset` after a success."""

    def __init__(self, backoff: Backoff, randomness: Randomness) -> None:
        self._backoff = backoff
        self._randomness = randomness
        self.attempts = 0

    def __next__(self) -> float:
        """The next delay. The series never ends."""
        delay = self._backoff.delay(self.attempts, self._randomness)
        self.attempts += 1
        return delay

    def reset(self) -> None:
        """Start over from the initial delay."""
        self.attempts = 0
