"""The loop that every housekeeper runs in: changes become keys, keys are put right one at a time, failures are tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from fairlead.api import errors
from fairlead.apiserver.storage.records import Change
from fairlead.apiserver.storage.store import StoreStopped
from fairlead.base.clock import Clock

__all__ = ["Housekeeper", "HousekeepingLoop"]

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.05
_LAST_RETRY_SECONDS = 60.0


class Housekeeper(Protocol):
    """Puts one kind of thing right."""

    name: str

    def initial(self) -> Iterable[str]:
        """What to look at when the server starts."""
        ...

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """What to look at because of a change. Called for every change, so it must be quick."""
        ...

    async def put_right(self, key: str) -> float | None:
        """Look at one thing and do what is due; in how many seconds to look again, or None."""
        ...


class HousekeepingLoop:
    """Runs one housekeeper. A key is worked on by one call at a time; a key that comes up meanwhile is done once more."""

    def __init__(self, housekeeper: Housekeeper, clock: Clock) -> None:
        self._housekeeper = housekeeper
        self._clock = clock
        self._due: dict[str, float] = {}  # key -> monotonic time from which it is to be done
        self._failures: dict[str, int] = {}
        self._wake = asyncio.Event()

    def observe(self, table: str, change: Change) -> None:
        """Hear of a change."""
        for key in self._housekeeper.affected(table, change):
            self._add(key, 0.0)

    def _add(self, key: str, at: float) -> None:
        known = self._due.get(key)
        if known is None or at < known:
            self._due[key] = at
            self._wake.set()

    async def run(self) -> None:
        """Put things right until cancelled."""
        for key in self._housekeeper.initial():
            self._add(key, 0.0)
        while True:
            key = await self._next()
            try:
                again = await self._housekeeper.put_right(key)
            except StoreStopped:
                return
            except errors.ApiError as error:
                self._retry(key, str(error))
                continue
            except Exception:
                log.exception(
                    "housekeeping failed", extra={"fields": {"housekeeper": self._housekeeper.name, "key": key}}
                )
                self._retry(key, "unexpected error")
                continue
            self._failures.pop(key, None)
            if again is not None:
                self._add(key, self._clock.monotonic() + again)

    def _retry(self, key: str, why: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(failures, 12))
        fields = {"housekeeper": self._housekeeper.name, "key": key, "why": why, "retry_seconds": delay}
        log.debug("housekeeping is tried again", extra={"fields": fields})
        self._add(key, self._clock.monotonic() + delay)

    async def _next(self) -> str:
        """The first key that is due; waits for one."""
        while True:
            now = self._clock.monotonic()
            soonest: float | None = None
            for key, at in self._due.items():
                if at <= now:
                    del self._due[key]
                    return key
                soonest = at if soonest is None else min(soonest, at)
            self._wake.clear()
            if soonest is None:
                await self._wake.wait()
                continue
            try:
                async with self._clock.timeout(soonest - now):
                    await self._wake.wait()
            except TimeoutError:
                continue
