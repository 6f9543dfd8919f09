"""Publishing what drivers offer as LifecycleTransitions: created, or found to say the same, and never overwritten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api import errors as api_errors
from fairlead.api import lifecycle_v1alpha1 as lifecycle
from fairlead.api.meta import ObjectMeta
from fairlead.base import logs
from fairlead.base.backoff import Backoff
from fairlead.client import errors as client_errors
from fairlead.client import follow
from fairlead.client.client import Client
from fairlead.driverapi.messages import OfferedTransition

__all__ = ["Publisher", "TransitionRefused", "as_spec"]

_BACKOFF: Final = Backoff(initial_seconds=0.2, factor=2.0, cap_seconds=5.0, jitter=0.5)

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


class Publisher:
    """Makes LifecycleTransitions of what drivers offer. Many agents do so at once for the same driver."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._api = client.of(lifecycle.LifecycleTransition)

    async def publish(self, driver: str, offered: Iterable[OfferedTransition]) -> None:
        """Publish all of them, however long the API server is out of reach.

        Raises:
            TransitionRefused: one cannot be published: the server refuses it, or it says something else already.
        """
        for one in offered:
            delays = _BACKOFF.delays(self._client.randomness)
            while not await self._try(one.name, as_spec(one, driver)):
                await self._client.clock.sleep(next(delays))

    async def _try(self, name: str, spec: lifecycle.LifecycleTransitionSpec) -> bool:
        try:
            existing = await self._find_or_create(name, spec)
        except (client_errors.ClientError, api_errors.ApiError, ValueError) as error:
            if isinstance(error, ValueError) or not _may_heal(error):
                raise TransitionRefused(f"LifecycleTransition {name} cannot be published: {error}") from error
            _log.warning("cannot publish a transition yet", transition=name, error=str(error))
            return False
        if existing.spec != spec:
            theirs = existing.spec
            raise TransitionRefused(
                f"LifecycleTransition {name} exists and says something else: from {theirs.start} to {theirs.end} "
                f"by driver {theirs.driver}; it is never overwritten"
            )
        return True

    async def _find_or_create(
        self, name: str, spec: lifecycle.LifecycleTransitionSpec
    ) -> lifecycle.LifecycleTransition:
        try:
            return await self._api.get(name)
        except api_errors.NotFound:
            pass
        wanted = lifecycle.LifecycleTransition(metadata=ObjectMeta(name=name), spec=spec)
        try:
            created = await self._api.create(wanted)
        except api_errors.AlreadyExists:
            return await self._api.get(name)
        _log.info("published a transition", transition=name, driver=spec.driver)
        return created


def _may_heal(error: Exception) -> bool:
    # The kinds may be installed after the agent: a path that nobody knows is a server that is not ready yet.
    return follow.is_transient(error) or isinstance(error, api_errors.NotFound)
