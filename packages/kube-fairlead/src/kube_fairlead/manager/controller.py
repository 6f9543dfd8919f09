"""What a controller is to the manager: a name, when it runs, and a coroutine that ends on request."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.reconcile import reconcile
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.election import NotLeading
from kube_fairlead.manager.health import Check, HealthChecks
from kube_fairlead.manager.resource_presence import Presence

__all__ = ["Context", "Controller"]

_K = TypeVar("_K", bound=Hashable)


def _no_lease() -> None:
    """Without an election there is no lease to lose."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a controller gets for one run. Everything in it ends with the term.

    `client` refuses writes once the lease cannot be relied on; for changes elsewhere `check` does, which raises then.
    `stopping`: take nothing new, finish, return. `lock`: the Lease under which it runs, empty without an election.
    The process that ran under the same Lease before has ended.
    """

    name: str
    client: Client
    recorder: EventRecorder
    stopping: asyncio.Event
    metrics: Metrics
    gates: FeatureGates
    health: HealthChecks
    ready: HealthChecks = dataclasses.field(default_factory=HealthChecks)
    workers: int = 1
    lock: str = ""
    check: Callable[[], None] = _no_lease

    def queue(self) -> WorkQueue[_K]:
        """A queue for this run."""
        return WorkQueue(self.client.clock, self.client.randomness)

    async def reconcile(self, queue: WorkQueue[_K], handle: Callable[[_K], Awaitable[float | None]]) -> None:
        """Work on the queue's keys until asked to stop. See `base.reconcile`.

        Raises:
            NotLeading: the lease cannot be relied on any more. It is looked at before every key.
        """

        async def checked(key: _K) -> float | None:
            self.check()
            return await handle(key)

        await reconcile(
            queue,
            checked,
            name=self.name,
            stopping=self.stopping,
            clock=self.client.clock,
            metrics=self.metrics,
            workers=self.workers,
            fatal=(NotLeading,),
        )

    async def wait_synced(self, *informers: Informer[Any]) -> bool:
        """Wait until all of them are complete; False when asked to stop first."""
        async with tasks.TaskScope(f"sync/{self.name}", on_exit=tasks.OnExit.CANCEL) as scope:
            synced = scope.start(_wait_all(informers), name="synced")
            stop = scope.start(_wait(self.stopping), name="stop")
            await asyncio.wait([synced, stop], return_when=asyncio.FIRST_COMPLETED)
        return not self.stopping.is_set()

    @contextlib.contextmanager
    def checked(self, aspect: str, check: Check) -> Iterator[None]:
        """Have `<controller>-<aspect>` on the health page as long as the block lasts."""
        with self.health.during(f"{self.name}-{aspect}", check):
            yield


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One controller.

    `run` is called once per term, and again when `present` says that what it works on is there again. It returns soon
    after `stopping` is set, and leaves no task running: the manager checks.
    """

    name: str
    run: Callable[[Context], Awaitable[None]]
    default: bool = True  # whether `*` means it too
    workers: int = 1
    present: Presence | None = None  # runs only while this is so; None: always
    gate: str = ""  # runs only with this feature gate on


async def _wait_all(informers: Iterable[Informer[Any]]) -> None:
    for informer in informers:
        await informer.wait_synced()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
