"""Telling the API about the node while it goes down, and when that is over: again and again until it is told.

Nothing here holds up the ending of pods. What is written, and in which words, is `recording`'s.
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
    """What the API is told about one node. Without a driver no event stands for a shutdown."""

    def __init__(
        self, client: Client, record: ShutdownStatusWriter, reach: ApiReachability, driver: ShutdownDriver | None
    ) -> None:
        self._clock = client.clock
        self._randomness = client.randomness
        self._record = record
        self._reach = reach
        self._driver = driver

    def begin(self, course: ShutdownProgress) -> None:
        """From now on only the shutdown goes on at the node."""
        if self._driver is not None:
            self._driver.begin(course.state)

    async def tell_began(self, course: ShutdownProgress) -> None:
        """The node goes down. Goes on trying for as long as the pods take."""
        ours = course.state.owner == "agent"
        # A state that was reached is not left again (invariant 2).
        complete = course.state.complete_time is not None
        await self.until_done(lambda: self._record.publish(complete=complete, with_ready=ours))
        await self.until_done(lambda: self._record.keep_pods_away(course.state))

    async def record_event(self, course: ShutdownProgress, telling: asyncio.Task[None]) -> None:
        """Have an event for it, once the node says so. It may have to wait for others, and no pod waits for it."""
        await asyncio.wait([telling])
        if self._driver is not None:
            driver = self._driver
            await self.until_done(lambda: driver.request(course.state))
            # A user may delete an event that is not claimed yet. Then it is requested again.
            while not await driver.wait_claimed(_REQUEST_AGAIN_SECONDS):
                await self.until_done(lambda: driver.request(course.state))

    async def tell_complete(
        self, course: ShutdownProgress, telling: asyncio.Task[None], recording: asyncio.Task[None]
    ) -> None:
        """All pods have had their turn."""
        ours = course.state.owner == "agent"
        await asyncio.wait([telling])
        await self.until_done(lambda: self._record.publish(complete=True, with_ready=ours))
        await asyncio.wait([recording])

    async def look_after(self, cache: PodCache, writer: PodWriter) -> None:
        """Nobody else looks after the node now: it stays not ready, and pods that come late are refused."""
        while True:
            try:
                async with self._reach.within(_STEP_SECONDS):
                    await self._record.publish(complete=False, with_ready=True)
                    for pod in cache.current.values():
                        if not pod.finished and not pod.deleting and not pod.status.container_statuses:
                            await writer.reject(pod)
            except API_ERRORS as error:
                _log.debug("the node is looked after again", error=str(error) or "no answer")
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("looking after the node fails in a way that was not foreseen")
            await self._clock.sleep(_OWN_NODE_SECONDS)

    def conclude(self) -> None:
        """The claimant may finish the event of the shutdown."""
        if self._driver is not None:
            self._driver.conclude()

    async def tell_over(self, why: str) -> None:
        """Nothing is under way any more: the node does its other work again."""
        await self.until_done(self._record.draw_line)
        await self.until_done(lambda: self._record.clear_conditions(why))
        await self.until_done(self._record.let_pods_in)
        if self._driver is not None:
            self._driver.yield_precedence()
            await self.until_done(self._driver.check_settled)

    def rest(self) -> None:
        """Nothing is left to be told of any shutdown."""
        if self._driver is not None:
            self._driver.rest()

    async def until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        """Try until it works."""
        delays = _RETRY.delays(self._randomness)
        while True:
            try:
                async with self._reach.within(_STEP_SECONDS):
                    await step()
            except NotYet as error:
                _log.debug("the API is told again", error=str(error))
            except API_ERRORS as error:
                _log.debug("the API is told again", error=str(error) or "no answer")
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("telling the API fails in a way that was not foreseen")
            else:
                return
            await self._clock.sleep(next(delays))
