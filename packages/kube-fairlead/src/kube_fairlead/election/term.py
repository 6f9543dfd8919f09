"""A term: from acquiring the lease until the last of its work has ended."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
from collections.abc import Callable

from kube_fairlead.base.clock import Clock
from kube_fairlead.election.errors import NotLeading
from kube_fairlead.election.lease import Lock

__all__ = ["Rules", "StopReason", "Term"]


class StopReason(enum.StrEnum):
    """Why a term ends."""

    EXIT = "exit"  # the process was asked to stop
    YIELD = "yield"  # it was asked to step down, and stays
    PREFERRED = "preferred-holder"  # the Lease names another preferred holder
    FINISHED = "finished"  # the work returned by itself
    FAILED = "failed"  # the work raised
    LOST = "lost"  # the lease is gone or cannot be renewed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a term ends.

    `shutdown_timeout_seconds`: how long a step-down may take until the process gives up and ends.
    `drain_seconds`: how long work may run after the request to stop before it is cancelled; None: it never is.
    `release`: a lease that was given up on request is released, not left to expire.
    `stay`: the process continues as a follower when a term ends; otherwise it ends too.
    """

    shutdown_timeout_seconds: float = 10.0
    drain_seconds: float | None = 5.0
    release: bool = True
    stay: bool = True

    def __post_init__(self) -> None:
        if self.shutdown_timeout_seconds <= 0:
            raise ValueError("shutdown_timeout_seconds must be greater than zero")
        if self.drain_seconds is not None and self.drain_seconds < 0:
            raise ValueError("drain_seconds must not be negative")


class Term:
    """What work knows of the term it belongs to.

    Watch `stopping`, and return soon after it is set: take nothing new, finish what was begun; `pause` waits and
    watches in one. When the lease is lost, work is cancelled instead. Call `check` before a write that only a leader
    may do, or write through `guarded`. Work that has ended and only tidies up, e.g. closes connections, may say so with
    `tidy_up`: the next leader need not wait for that.
    """

    def __init__(
        self,
        lock: Lock,
        *,
        identity: str,
        number: int,
        clock: Clock,
        is_reliable: Callable[[], bool],
        is_elected: bool = True,
    ) -> None:
        self.lock = lock
        self.identity = identity
        self.number = number
        self.is_elected = is_elected  # else nothing is known of other processes that do the same work
        self.stopping = asyncio.Event()
        self.stop_reason: StopReason | None = None
        self.is_tidying = False
        self.on_tidying: Callable[[], object] = lambda: None
        self.stragglers: tuple[str, ...] = ()  # what work left running, as far as it knows
        self._clock = clock
        self._is_reliable = is_reliable

    @property
    def owner(self) -> str:
        """The owner of all tasks of this term's work: what `base.tasks` names them after."""
        return f"term/{self.lock}"

    @property
    def is_valid(self) -> bool:
        """Whether the lease can be relied on at this very moment."""
        return self.stop_reason is not StopReason.LOST and self._is_reliable()

    async def pause(self, seconds: float) -> bool:
        """Wait that long, but not beyond the request to stop; whether the work should continue.

        Raises:
            NotLeading: the lease cannot be relied on any more. A process that was stopped for a while, or whose machine
                was asleep, wakes up here before it can know that it was asked to end.
        """
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self.stopping.wait()
        self.check()
        return not self.stopping.is_set()

    def check(self) -> None:
        """Make sure that the lease can be relied on, e.g. after the process or its machine was asleep.

        Raises:
            NotLeading: it cannot.
        """
        if not self.is_valid:
            raise NotLeading(f"{self.identity} cannot rely on the lease {self.lock} any more")

    def stop(self, reason: StopReason) -> None:
        """Ask the work to end. A lost lease overrules every other reason."""
        if self.stop_reason is None or reason is StopReason.LOST:
            self.stop_reason = reason
        self.stopping.set()

    def tidy_up(self) -> None:
        """Nothing of this work acts any more; what follows only releases what it held."""
        self.is_tidying = True
        self.on_tidying()
