"""No two managers share a platform: each names its own on its Lease, and works only while no other live one does.

Invariants:
1. A manager writes its claim first and looks at the others' afterwards. Of two that begin at once, the one that wrote
   last sees the other.
2. It works only if it saw no claim of another live Lease to one of its platforms while its own was written. A Lease is
   live while it has a holder that renews it; its age is taken by the own clock, not by the time that is written in it.
3. Of two that wait for each other, the one whose Lease has the later name withdraws its claim until the other is gone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from kube_fairlead import manager
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import errors
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.cloud.wellknown import ANNOTATION_PLATFORMS

__all__ = ["CHECK", "Collision", "PlatformClaim", "Sightings"]

CHECK: Final = "platforms"
"""What the check on the readiness page is called."""

_WAIT_SECONDS: Final = 2.0
# An administrator may delete the Lease, or its annotations, while the manager works.
_KEEP_SECONDS: Final = 10.0
# Of a Lease that does not say how long it lasts.
_DEFAULT_DURATION_SECONDS: Final = 15
_FAILURES: Final = (api_errors.ApiError, errors.ClientError, TimeoutError)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Collision:
    """Another live Lease names platforms that are this manager's too."""

    lease: str
    platforms: tuple[str, ...]
    holder: str

    def __str__(self) -> str:
        return f"Lease {self.lease}, held by {self.holder}, names {', '.join(self.platforms)} too"


class Sightings:
    """Which Leases are held, as one manager sees them: one that does not change for its duration has expired."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[object, float]] = {}

    def is_live(self, lease: Lease) -> bool:
        """Whether it has a holder that renewed it within its time since it was first seen so."""
        if not lease.spec.holder_identity:
            return False
        now, record = self._clock.monotonic(), lease.spec
        last, since = self._seen.get(lease.name, (None, now))
        if last != record:
            since = now
        self._seen[lease.name] = (record, since)
        return now < since + (lease.spec.lease_duration_seconds or _DEFAULT_DURATION_SECONDS)


class PlatformClaim:
    """The claim of one manager, in one term, to its platforms."""

    def __init__(self, context: manager.Context, *, namespace: str, lease: str, platforms: Collection[str]) -> None:
        self._context = context
        self._clock = context.client.clock
        self._api = context.client.of(Lease)
        self._namespace = namespace
        self._name = lease
        self._platforms = sorted(platforms)
        self._sightings = Sightings(self._clock)
        self._problem = "not checked yet"

    async def run(self, work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Do the work whenever the platforms are this manager's alone, until the request to stop."""
        stopping = self._context.stopping
        with self._context.ready.during(CHECK, self._verdict):
            while await self._until_alone() and not await self._work(work):
                if stopping.is_set():
                    return

    async def _work(self, work: Callable[[asyncio.Event], Awaitable[None]]) -> bool:
        """Work until the end of the term or of the claim; whether the work ended by itself."""
        asked_to_stop = asyncio.Event()
        async with tasks.TaskScope("platforms", on_exit=tasks.OnExit.CANCEL) as scope:
            working = scope.start(_call(work, asked_to_stop), name="work")
            others = [
                scope.start(self._keep(), name="keep"),
                scope.start(_wait(self._context.stopping), name="stopping"),
            ]
            await asyncio.wait([working, *others], return_when=asyncio.FIRST_COMPLETED)
            by_itself = working.done()
            asked_to_stop.set()
            await working
        return by_itself

    async def _until_alone(self) -> bool:
        """Wait until no other live Lease names one of the platforms; False when asked to stop first."""
        async with tasks.TaskScope("platforms", on_exit=tasks.OnExit.CANCEL) as scope:
            # Nothing works yet, so a call that an API server does not answer may be cut short.
            waiting = [
                scope.start(self._look_until_alone(), name="look"),
                scope.start(_wait(self._context.stopping), name="stopping"),
            ]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return not self._context.stopping.is_set()

    async def _look_until_alone(self) -> None:
        while True:
            try:
                leases = await self._list()
                # Another of an earlier name goes first; this claim would keep it waiting.
                if all(one.lease > self._name for one in self._collisions(leases)):
                    await self._claim()
                    leases = await self._list()
                collisions = self._collisions(leases)
                if not collisions:
                    self._problem = ""
                    return
                self._tell(leases, collisions)
                if min(collisions).lease < self._name:
                    await self._withdraw(leases)
            except _FAILURES as error:
                self._say(f"whether another manager names {', '.join(self._platforms)} cannot be checked: {error}")
            await self._clock.sleep(_WAIT_SECONDS)

    async def _keep(self) -> None:
        """See that the claim stays written; returns when it was gone and another has claimed meanwhile."""
        while True:
            await self._clock.sleep(_KEEP_SECONDS)
            try:
                if self._is_claimed(await self._list()):
                    continue
                await self._claim()
                if collisions := self._collisions(await self._list()):
                    self._problem = "; ".join(map(str, collisions))
                    return
            except _FAILURES as error:
                _log.warning("cannot check the claim to the platforms", lease=self._name, error=str(error))

    async def _list(self) -> Mapping[str, Lease]:
        return {one.name: one for one in (await self._api.list_all(namespace=self._namespace)).items}

    def _collisions(self, leases: Mapping[str, Lease]) -> list[Collision]:
        found = []
        for name, lease in sorted(leases.items()):
            shared = sorted(_named(lease).intersection(self._platforms))
            if shared and name != self._name and self._sightings.is_live(lease):
                found.append(Collision(name, tuple(shared), lease.spec.holder_identity or ""))
        return found

    def _is_claimed(self, leases: Mapping[str, Lease]) -> bool:
        own = leases.get(self._name)
        return own is not None and _named(own) == frozenset(self._platforms)

    async def _claim(self) -> None:
        await self._annotate(",".join(self._platforms))

    async def _withdraw(self, leases: Mapping[str, Lease]) -> None:
        if self._is_claimed(leases):
            await self._annotate(None)

    async def _annotate(self, value: str | None) -> None:
        patch = MergePatch({"metadata": {"annotations": {ANNOTATION_PLATFORMS: value}}})
        await self._api.patch(self._name, patch, namespace=self._namespace)

    def _tell(self, leases: Mapping[str, Lease], collisions: list[Collision]) -> None:
        note = "; ".join(map(str, collisions))
        if self._say(f"{note}; the controllers do not start") and (own := leases.get(self._name)) is not None:
            self._context.recorder.event(own, reason="PlatformsCollide", note=note, type="Warning", action="Waiting")

    def _say(self, problem: str) -> bool:
        """Log a problem once; whether it is new."""
        is_new = problem != self._problem
        self._problem = problem
        if is_new:
            _log.error(f"cloud controllers wait: {problem}", lease=self._name, platforms=self._platforms)
        return is_new

    def _verdict(self) -> manager.Verdict:
        return manager.Verdict(is_ok=not self._problem, note=self._problem or ",".join(self._platforms))


def _named(lease: Lease) -> frozenset[str]:
    return frozenset(filter(None, (lease.metadata.annotations or {}).get(ANNOTATION_PLATFORMS, "").split(",")))


async def _call(work: Callable[[asyncio.Event], Awaitable[None]], stopping: asyncio.Event) -> None:
    await work(stopping)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
