"""The loop of every controller: changes become keys, keys are reconciled, failed keys are retried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kube_fairlead.api import errors
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.base.reconcile import reconcile
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead_apiserver.storage.entries import Change
from kube_fairlead_apiserver.storage.interface import DiskFull
from kube_fairlead_apiserver.storage.store import StoreStopped

__all__ = ["Controller", "ControllerLoop"]

_WORKERS = 8


class Controller(Protocol):
    """Reconciles one kind of object."""

    name: str

    def initial(self) -> Iterable[str]:
        """Yield the keys to reconcile when the server starts."""
        ...

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield the keys to reconcile after a change. Called for every change, so it must be fast."""
        ...

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one key; the seconds until it is reconciled again, or None."""
        ...


class ControllerLoop:
    """Runs one controller. A key that changes while it is being reconciled is reconciled again."""

    def __init__(self, controller: Controller, clock: Clock, randomness: Randomness) -> None:
        self.name = controller.name
        self._controller = controller
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue(clock, randomness)

    def observe(self, table: str, change: Change) -> None:
        """Queue the keys that a change affects."""
        for key in self._controller.affected(table, change):
            self._queue.add(key)

    async def run(self) -> None:
        """Reconcile until cancelled. Several workers reconcile at once, so that their writes share commits."""
        for key in self._controller.initial():
            self._queue.add(key)
        await reconcile(
            self._queue,
            self._controller.reconcile,
            name=self.name,
            clock=self._clock,
            workers=_WORKERS,
            expected=(errors.ApiError, StoreStopped, DiskFull),
            expected_level="debug",
        )
