"""Publishing what drivers offer as LifecycleTransitions, and keeping them published while a driver offers them.

What to do about one is decided by `lifecycle.offers`. A transition that a user or another driver made is never
overwritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import lifecycle_v1alpha1 as lifecycle
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import retry_watch
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.driverapi.messages import OfferedTransition
from kube_fairlead.lifecycle import offers

__all__ = ["TransitionPublisher", "TransitionRefused", "as_spec"]

_BACKOFF: Final = Backoff(initial_seconds=0.2, factor=2.0, cap_seconds=5.0, jitter=0.5)

_SPREAD_SECONDS: Final = 120.0

_log = logs.get_logger(__name__)


class TransitionRefused(Exception):
    """Raised when what a driver offers cannot be published, now or later."""


def as_spec(offered: OfferedTransition, driver: str) -> lifecycle.LifecycleTransitionSpec:
    """The spec to publish. The driver's name is the one it registered with, whatever it offers."""
    for_all = not offered.node_name and offered.node_selector is None
    return lifecycle.LifecycleTransitionSpec(
        start=offered.start,
        end=offered.end,
        driver=driver,
        sla=offered.sla or None,
        node_name=offered.node_name or None,
        node_selector=offered.node_selector,
        all_nodes=True if for_all else None,
    )


class TransitionPublisher:
    """Makes LifecycleTransitions of what drivers offer, and keeps them. Many agents do so at once for the same driver.

    `publish` is for a driver that registers. While it is registered (`keeping`) `run` creates what is deleted and keeps
    `offered-at` young. `run` never replaces: agents with two versions of a driver would undo each other's work.
    """

    def __init__(
        self,
        client: Client,
        transitions: Informer[lifecycle.LifecycleTransition],
        *,
        renewal: dt.timedelta = offers.RENEWAL,
    ) -> None:
        self._client = client
        self._renewal = renewal
        self._api = client.of(lifecycle.LifecycleTransition)
        self._transitions = transitions
        self._kept: list[tuple[str, tuple[OfferedTransition, ...]]] = []  # by driver, in the order they registered
        self._moments: dict[str, tuple[dt.datetime, dt.datetime]] = {}  # when each is due, and when it is renewed here
        self._changed = asyncio.Event()

    async def publish(self, driver: str, offered: Iterable[OfferedTransition]) -> None:
        """Publish all of them, however long the API server is out of reach.

        Raises:
            TransitionRefused: one cannot be published: the server refuses it, or it says something else already.
        """
        for one in offered:
            delays = _BACKOFF.delays(self._client.randomness)
            while not await self._try(one.name, as_spec(one, driver)):
                await self._client.clock.sleep(next(delays))

    @contextlib.contextmanager
    def keeping(self, driver: str, offered: tuple[OfferedTransition, ...]) -> Iterator[None]:
        """Keep what a driver offers published, for as long as the block lasts."""
        kept = (driver, offered)
        self._kept.append(kept)
        self._changed.set()
        try:
            yield
        finally:
            self._kept.remove(kept)

    async def run(self) -> None:
        """Keep what registered drivers offer, until cancelled."""
        forget = self._transitions.add_handler(
            Handler(on_update=lambda _old, _new: self._changed.set(), on_delete=lambda _item: self._changed.set())
        )
        delays = _BACKOFF.delays(self._client.randomness)
        try:
            await self._transitions.wait_synced()
            while True:
                self._changed.clear()
                try:
                    seconds = await self._keep_all()
                    delays.reset()
                except (client_errors.ClientError, api_errors.ApiError) as error:
                    _log.warning("cannot keep a transition published", error=str(error))
                    seconds = next(delays)
                with contextlib.suppress(TimeoutError):
                    async with self._client.clock.timeout(seconds):
                        await self._changed.wait()
        finally:
            forget()

    async def _keep_all(self) -> float | None:
        """Create what is missing, renew what is old; how many seconds until the next is old, if one will be."""
        # Of two versions of a driver, the newer one speaks.
        wanted = {one.name: (driver, as_spec(one, driver)) for driver, offered in self._kept for one in offered}
        moments: list[dt.datetime] = []
        now = self._client.clock.now()
        for name, (driver, spec) in wanted.items():
            existing = self._transitions.store.get(name)
            if existing is None:
                await self._create(name, spec)
                continue
            due = offers.renewal_due(existing, driver, self._renewal) if existing.spec == spec else None
            if due is None:
                continue
            moment = self._moment(name, due)
            if now >= moment:
                await self._renew(existing, driver)
            else:
                moments.append(moment)
        return max(0.0, (min(moments) - now).total_seconds()) if moments else None

    def _moment(self, name: str, due: dt.datetime) -> dt.datetime:
        """When this agent renews what is due then. Not all agents at once: the first one spares the others theirs."""
        known = self._moments.get(name)
        if known is None or known[0] != due:
            spread = dt.timedelta(seconds=self._client.randomness.uniform(0.0, _SPREAD_SECONDS))
            known = self._moments[name] = (due, due + spread if due.year > 1 else due)
        return known[1]

    async def _try(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        try:
            return await self._publish_one(name, spec)
        except (client_errors.ClientError, api_errors.ApiError, ValueError) as error:
            if isinstance(error, ValueError) or not _may_heal(error):
                raise TransitionRefused(f"LifecycleTransition {name} cannot be published: {error}") from error
            _log.warning("cannot publish a transition yet", transition=name, error=str(error))
            return False

    async def _publish_one(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        """Whether it is published; False when another agent changed it meanwhile, so that it is looked at again."""
        existing = await self._read(name)
        users = await self._users(name) if existing is not None and existing.spec != spec else []
        match offers.publish(existing, spec, spec.driver, users, self._client.clock.now(), self._renewal):
            case offers.Create():
                return await self._create(name, spec)
            case offers.Renew() if existing is not None:
                await self._renew(existing, spec.driver)
            case offers.Replace() if existing is not None:
                try:
                    await self._api.delete(name, uid=existing.uid, resource_version=existing.metadata.resource_version)
                except (api_errors.NotFound, api_errors.Conflict):
                    return False
                _log.info("replacing a transition", transition=name, driver=spec.driver)
                return await self._create(name, spec)
            case offers.Refuse(why):
                raise TransitionRefused(why)
            case _:
                pass
        return True

    async def _read(self, name: str) -> lifecycle.LifecycleTransition | None:
        try:
            return await self._api.get(name)
        except api_errors.NotFound:
            return None

    async def _users(self, name: str) -> list[str]:
        """The unfinished events that name the transition."""
        events = await self._client.of(lifecycle.LifecycleEvent).list_all()
        return [event.name for event in events.items if event.spec.transition_name == name and not event.finished]

    async def _create(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        """Whether it was created: another agent may have been faster."""
        marked = offers.marks(spec.driver, self._client.clock.now())
        wanted = lifecycle.LifecycleTransition(metadata=ObjectMeta(name=name, annotations=marked), spec=spec)
        try:
            await self._api.create(wanted)
        except api_errors.AlreadyExists:
            return False
        _log.info("published a transition", transition=name, driver=spec.driver)
        return True

    async def _renew(self, existing: lifecycle.LifecycleTransition, driver: str) -> None:
        body = {
            "metadata": {
                "annotations": offers.marks(driver, self._client.clock.now()),
                "resourceVersion": existing.metadata.resource_version,
                "uid": existing.uid,
            }
        }
        # Another agent wrote it, or the transition is gone: the watch shows which, and what is missing comes back.
        with contextlib.suppress(api_errors.Conflict, api_errors.NotFound):
            await self._api.patch(existing.name, MergePatch(body))


def _may_heal(error: Exception) -> bool:
    # The kinds may be installed after the agent: a path that nobody knows is a server that is not ready yet.
    return retry_watch.is_transient(error) or isinstance(error, api_errors.NotFound)
