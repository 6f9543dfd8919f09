"""Publishes a shutdown in the API, with retries: its start, its end of pods, and its end.

No pod waits for these writes. `status_writer` holds the writes themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.agent.shutdown.pod_cache import PodCache
from kube_fairlead.agent.shutdown.pod_writer import PodWriter
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.agent.shutdown.status_writer import ShutdownStatusWriter
from kube_fairlead.agent.shutdown_driver import NotYet, ShutdownDriver
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client.client import Client

__all__ = ["ShutdownStatusReporter"]

_STEP_SECONDS: Final = 10.0
_OWN_NODE_SECONDS: Final = 0.5
_REQUEST_AGAIN_SECONDS: Final = 2.0
_RETRY: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=2.0, jitter=0.3)

_log = logs.get_logger(__name__)


class ShutdownStatusReporter:
    """Reports the shutdowns of one node. Without a driver they have no events."""

    def __init__(
        self, client: Client, writer: ShutdownStatusWriter, reach: ApiReachability, driver: ShutdownDriver | None
    ) -> None:
        self._clock = client.clock
        self._randomness = client.randomness
        self._writer = writer
        self._reach = reach
        self._driver = driver

    def begin(self, progress: ShutdownProgress) -> None:
        """From now on the claimant carries out the shutdown only."""
        if self._driver is not None:
            self._driver.begin(progress.state)

    async def publish_started(self, progress: ShutdownProgress) -> None:
        """The node shows that it shuts down. Retries for as long as the pods take."""
        with_ready = progress.state.owner == "agent"
        # A node does not leave the end state (invariant 2).
        complete = progress.state.complete_time is not None
        await self.until_done(lambda: self._writer.publish(complete=complete, with_ready=with_ready))
        await self.until_done(lambda: self._writer.cordon(progress.state))

    async def request_event(self, progress: ShutdownProgress, publishing: asyncio.Task[None]) -> None:
        """Create the event after the node shows the shutdown. Its claim may wait for other events; no pod waits."""
        await asyncio.wait([publishing])
        if self._driver is not None:
            driver = self._driver
            await self.until_done(lambda: driver.request(progress.state))
            # A user may delete an event that is not claimed yet. Then it is requested again.
            while not await driver.wait_claimed(_REQUEST_AGAIN_SECONDS):
                await self.until_done(lambda: driver.request(progress.state))

    async def publish_complete(
        self, progress: ShutdownProgress, publishing: asyncio.Task[None], requesting: asyncio.Task[None]
    ) -> None:
        """The node shows that all groups of pods are over."""
        with_ready = progress.state.owner == "agent"
        await asyncio.wait([publishing])
        await self.until_done(lambda: self._writer.publish(complete=True, with_ready=with_ready))
        await asyncio.wait([requesting])

    async def hold_not_ready(self, cache: PodCache, pod_writer: PodWriter) -> None:
        """In place of the stopped kubelet: keep the node not ready, and reject pods that arrive late."""
        while True:
            try:
                async with self._reach.within(_STEP_SECONDS):
                    await self._writer.publish(complete=False, with_ready=True)
                    for pod in cache.current.values():
                        if not pod.finished and not pod.deleting and not pod.status.container_statuses:
                            await pod_writer.reject(pod)
            except API_ERRORS as error:
                _log.debug("retrying API update", error=str(error) or "no answer")
            except Exception:  # noqa: BLE001 - whatever is wrong with a status, pods must terminate
                _log.exception("unexpected error in an API update")
            await self._clock.sleep(_OWN_NODE_SECONDS)

    def conclude(self) -> None:
        """The shutdown is over: the claimant may finish its event."""
        if self._driver is not None:
            self._driver.conclude()

    async def publish_ended(self, reason: str) -> None:
        """The node shows no shutdown, accepts pods, and its claimant carries out other events again."""
        await self.until_done(self._writer.invalidate_older_writes)
        await self.until_done(lambda: self._writer.clear_conditions(reason))
        await self.until_done(self._writer.uncordon)
        if self._driver is not None:
            self._driver.yield_precedence()
            await self.until_done(self._driver.check_settled)

    def unregister(self) -> None:
        """No shutdown is left to report."""
        if self._driver is not None:
            self._driver.unregister()

    async def until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step until it succeeds."""
        delays = _RETRY.delays(self._randomness)
        while True:
            try:
                async with self._reach.within(_STEP_SECONDS):
                    await step()
            except NotYet as error:
                _log.debug("retrying API update", error=str(error))
            except API_ERRORS as error:
                _log.debug("retrying API update", error=str(error) or "no answer")
            except Exception:  # noqa: BLE001 - whatever is wrong with a status, pods must terminate
                _log.exception("unexpected error in an API update")
            else:
                return
            await self._clock.sleep(next(delays))
