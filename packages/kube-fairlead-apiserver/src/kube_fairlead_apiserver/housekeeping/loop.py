"""The loop of every housekeeper: changes become keys, keys are put right one at a time, failures are tried again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kube_fairlead.api import errors
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead_apiserver.storage.interface import DiskFull
from kube_fairlead_apiserver.storage.records import Change
from kube_fairlead_apiserver.storage.store import StoreStopped

__all__ = ["Housekeeper", "HousekeepingLoop"]

_log = logs.get_logger(__name__)
_WORKERS = 8


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
    """Runs one housekeeper; never one key twice at once. A key that comes up while it is worked on is done again."""

    def __init__(self, housekeeper: Housekeeper, clock: Clock, randomness: Randomness) -> None:
        self.name = housekeeper.name
        self._housekeeper = housekeeper
        self._queue: WorkQueue[str] = WorkQueue(clock, randomness)

    def observe(self, table: str, change: Change) -> None:
        """Hear of a change."""
        for key in self._housekeeper.affected(table, change):
            self._queue.add(key)

    async def run(self) -> None:
        """Put things right until cancelled. Several keys at once, so that their writes share commits."""
        for key in self._housekeeper.initial():
            self._queue.add(key)
        async with TaskScope(self.name) as scope:
            for number in range(_WORKERS):
                scope.start(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            async with self._queue.take() as key:
                await self._put_right(key)

    async def _put_right(self, key: str) -> None:
        try:
            again = await self._housekeeper.put_right(key)
        except (errors.ApiError, StoreStopped, DiskFull) as error:
            _log.debug("housekeeping is tried again", housekeeper=self.name, key=key, why=str(error))
            self._queue.add_rate_limited(key)
            return
        except Exception:  # noqa: BLE001 - a bug in one housekeeper must not end the server; the key waits
            _log.exception("housekeeping failed", housekeeper=self.name, key=key)
            self._queue.add_rate_limited(key)
            return
        self._queue.forget(key)
        if again is not None:
            self._queue.add_after(key, again)
