"""Publish the transitions that drivers offer as LifecycleTransitions, and renew them while a driver offers them.

`lifecycle.offers` decides how. A transition of a user or another driver is never overwritten.
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
    """Raised when an offered transition cannot be published, now or later."""


def as_spec(offered: OfferedTransition, driver: str) -> lifecycle.LifecycleTransitionSpec:
    """Return the spec to publish. The driver's name is the one that it registered with."""
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
    """Creates and renews LifecycleTransitions. Many agents do so at once for the same driver.

    `publish` is for a driver that registers. While it is registered (`kept_published`), `run` creates a deleted
    transition again and renews `offered-at`. `run` never replaces one: agents with two versions of a driver would
    replace each other's transition forever.
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
        self._offered: list[tuple[str, tuple[OfferedTransition, ...]]] = []  # by driver, in the order of registration
        self._renewals: dict[
            str, tuple[dt.datetime, dt.datetime]
        ] = {}  # the due time of each, and when this agent renews it
        self._changed = asyncio.Event()

    async def publish(self, driver: str, offered: Iterable[OfferedTransition]) -> None:
        """Publish transitions, and retry while the API server is unreachable.

        Raises:
            TransitionRefused: the server rejects one, or it exists with another spec.
        """
        for one in offered:
            delays = _BACKOFF.delays(self._client.randomness)
            while not await self._try(one.name, as_spec(one, driver)):
                await self._client.clock.sleep(next(delays))

    @contextlib.contextmanager
    def kept_published(self, driver: str, offered: tuple[OfferedTransition, ...]) -> Iterator[None]:
        """Keep the transitions of a driver published for the time of the block."""
        kept = (driver, offered)
        self._offered.append(kept)
        self._changed.set()
        try:
            yield
        finally:
            self._offered.remove(kept)

    async def run(self) -> None:
        """Keep the transitions of registered drivers published. Runs until cancelled."""
        forget = self._transitions.add_handler(
            Handler(on_update=lambda _old, _new: self._changed.set(), on_delete=lambda _item: self._changed.set())
        )
        delays = _BACKOFF.delays(self._client.randomness)
        try:
            await self._transitions.wait_synced()
            while True:
                self._changed.clear()
                try:
                    seconds = await self._reconcile()
                    delays.reset()
                except (client_errors.ClientError, api_errors.ApiError) as error:
                    _log.warning("retrying to renew transitions", error=str(error))
                    seconds = next(delays)
                with contextlib.suppress(TimeoutError):
                    async with self._client.clock.timeout(seconds):
                        await self._changed.wait()
        finally:
            forget()

    async def _reconcile(self) -> float | None:
        """Create missing transitions and renew old ones; return the seconds until the next renewal, if any."""
        # Of two versions of a driver, the newer one counts.
        wanted = {one.name: (driver, as_spec(one, driver)) for driver, offered in self._offered for one in offered}
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
            moment = self._renewal_time(name, due)
            if now >= moment:
                await self._renew(existing, driver)
            else:
                moments.append(moment)
        return max(0.0, (min(moments) - now).total_seconds()) if moments else None

    def _renewal_time(self, name: str, due: dt.datetime) -> dt.datetime:
        """Return when this agent renews a transition: spread at random, so that one agent writes for all."""
        known = self._renewals.get(name)
        if known is None or known[0] != due:
            spread = dt.timedelta(seconds=self._client.randomness.uniform(0.0, _SPREAD_SECONDS))
            known = self._renewals[name] = (due, due + spread if due.year > 1 else due)
        return known[1]

    async def _try(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        try:
            return await self._publish_one(name, spec)
        except (client_errors.ClientError, api_errors.ApiError, ValueError) as error:
            if isinstance(error, ValueError) or not _is_retriable(error):
                raise TransitionRefused(f"LifecycleTransition {name} cannot be published: {error}") from error
            _log.warning("retrying to publish transition", transition=name, error=str(error))
            return False

    async def _publish_one(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        """Return whether it is published; False when another agent changed it, so that the caller retries."""
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
                _log.info("replacing transition", transition=name, driver=spec.driver)
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
        """Return the names of unfinished events that use the transition."""
        events = await self._client.of(lifecycle.LifecycleEvent).list_all()
        return [event.name for event in events.items if event.spec.transition_name == name and not event.finished]

    async def _create(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        """Return whether it was created; False when another agent created it first."""
        annotations = offers.published_annotations(spec.driver, self._client.clock.now())
        wanted = lifecycle.LifecycleTransition(metadata=ObjectMeta(name=name, annotations=annotations), spec=spec)
        try:
            await self._api.create(wanted)
        except api_errors.AlreadyExists:
            return False
        _log.info("transition published", transition=name, driver=spec.driver)
        return True

    async def _renew(self, existing: lifecycle.LifecycleTransition, driver: str) -> None:
        body = {
            "metadata": {
                "annotations": offers.published_annotations(driver, self._client.clock.now()),
                "resourceVersion": existing.metadata.resource_version,
                "uid": existing.uid,
            }
        }
        # Another agent renewed or deleted it: the watch shows which, and `run` creates a missing one.
        with contextlib.suppress(api_errors.Conflict, api_errors.NotFound):
            await self._api.patch(existing.name, MergePatch(body))


def _is_retriable(error: Exception) -> bool:
    # The kinds may be installed after the agent: 404 for the path means that the server is not ready yet.
    return retry_watch.is_transient(error) or isinstance(error, api_errors.NotFound)
