"""A test kit for drivers: an agent in memory, without sockets, cluster or node.

    async with testing.agent(Reboot()) as agent:
        event = agent.begin("reboot", sla_seconds=60)
        assert (await event.next_progress()).done == 1
        await agent.restart_driver(Reboot())
        assert (await event.result()).status == "Succeeded"

It calls a driver as the node's agent does: start, then end. After a restart of either side it repeats the calls with
the same event uid, and at the deadline it cancels them. The test itself checks what the driver did.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Mapping

from kube_fairlead.api.time import parse_duration
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.driverapi.errors import DriverError, DriverGone
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Work
from kube_fairlead.drivers.sdk.driver import Driver
from kube_fairlead.drivers.sdk.service import Service

__all__ = ["Agent", "Event", "Outcome", "agent"]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an event: its status, as `kubectl get le` shows it, and what the driver reported."""

    status: str  # Succeeded, Failed or SlaExpired
    message: str = ""
    reached: tuple[str, ...] = ()  # the states of the node, in order
    progress: tuple[Progress, ...] = ()


class Event:
    """One event that the driver carries out."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.progress: list[Progress] = []
        self.reached: list[str] = []
        self._read = 0
        self._changed = asyncio.Condition()
        self._outcome: Outcome | None = None

    async def next_progress(self) -> Progress:
        """Wait for the driver's next report that this method has not returned yet.

        Raises:
            EOFError: the event ended without another report.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.progress) > self._read or self._outcome is not None)
        if len(self.progress) == self._read:
            raise EOFError(f"event {self.work.event_name} ended without another report: {self._outcome}")
        self._read += 1
        return self.progress[self._read - 1]

    async def result(self) -> Outcome:
        """Wait for the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._outcome is not None)
        assert self._outcome is not None  # noqa: S101 - the condition of the wait
        return self._outcome

    @property
    def is_over(self) -> bool:
        """Whether the event has ended."""
        return self._outcome is not None

    async def changed(self) -> None:
        """Called by the agent when the driver has reported progress or reached a state."""
        async with self._changed:
            self._changed.notify_all()

    async def end(self, status: str, message: str = "") -> None:
        """Called by the agent when the event has ended."""
        self._outcome = Outcome(status, message, tuple(self.reached), tuple(self.progress))
        await self.changed()


class Agent:
    """Calls one driver for any number of events."""

    def __init__(self, driver: Driver, clock: Clock, *, node_name: str) -> None:
        self._clock = clock
        self._node_name = node_name
        self._driver = driver
        self._channel = MemoryChannel(Service(driver, clock))
        self._offers: dict[str, OfferedTransition] = {}
        self._calls: dict[str, tuple[Event, asyncio.Task[None]]] = {}
        self._tasks = tasks.TaskSet("driver test")

    async def open(self) -> None:
        """Read the driver's transitions, as at its registration."""
        offered = await self._channel.get_transitions(self._node_name)
        self._offers = {offer.name: offer for offer in offered}

    async def close(self) -> None:
        """Cancel every running call."""
        await self._tasks.close()

    def begin(
        self,
        transition: str,
        *,
        options: Mapping[str, str] | None = None,
        sla_seconds: float | None = None,
        uid: str = "",
    ) -> Event:
        """Create an event for a transition that the driver offers, and carry it out.

        Args:
            transition: its name.
            options: the event's options, as in `work.options`.
            sla_seconds: until the deadline; the transition's SLA unless given.
            uid: the event's uid; that of an earlier event tests that the driver repeats nothing.

        Raises:
            LookupError: the driver does not offer the transition.
        """
        offer = self._offers.get(transition)
        if offer is None:
            raise LookupError(f"{self._driver.name} offers {', '.join(self._offers) or 'nothing'}, not {transition}")
        time = dt.timedelta(seconds=sla_seconds) if sla_seconds is not None else None
        time = parse_duration(offer.sla) if time is None and offer.sla else time
        name = f"event-{len(self._calls) + 1}"
        event = Event(
            Work(
                event_uid=uid or f"uid-of-{name}",
                event_name=name,
                node_name=self._node_name,
                node_uid=f"uid-of-{self._node_name}",
                transition_name=transition,
                start=offer.start,
                end=offer.end,
                options=dict(options or {}),
                deadline=None if time is None else self._clock.now() + time,
            )
        )
        self._call(event)
        return event

    async def carry_out(self, transition: str, *, sla_seconds: float | None = None) -> Outcome:
        """Begin an event and wait for its end."""
        return await self.begin(transition, sla_seconds=sla_seconds).result()

    async def cancel(self, event: Event) -> Outcome:
        """End an event now, as `fairlead cancel` does: the driver's call is cancelled and the event fails."""
        await self._break_off(event)
        if not event.is_over:
            await event.end("Failed", "cancelled")
        return await event.result()

    async def restart(self) -> None:
        """Restart the agent: its calls are cancelled and repeated with the same event uids."""
        for event, _ in list(self._calls.values()):
            await self._break_off(event)
            if not event.is_over:
                self._call(event)

    async def restart_driver(self, driver: Driver) -> None:
        """Replace the driver by a new one, as a restart of its process does, and repeat the calls."""
        broken = [event for event, _ in self._calls.values()]
        for event in broken:
            await self._break_off(event)
        self._driver = driver
        self._channel = MemoryChannel(Service(driver, self._clock))
        await self.open()
        for event in broken:
            if not event.is_over:
                self._call(event)

    def _call(self, event: Event) -> None:
        task = self._tasks.start(self._carry_out(event), name=event.work.event_name)
        self._calls[event.work.event_name] = event, task

    async def _break_off(self, event: Event) -> None:
        await tasks.cancel_and_wait(self._calls[event.work.event_name][1])

    async def _carry_out(self, event: Event) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                if event.work.deadline is not None:
                    left = (event.work.deadline - self._clock.now()).total_seconds()
                    await stack.enter_async_context(self._clock.timeout(max(0.0, left)))
                await self._call_driver(event)
        except TimeoutError:
            await event.end("SlaExpired", "deadline exceeded")
        except DriverGone as error:
            expired = event.work.deadline is not None and self._clock.now() >= event.work.deadline
            await event.end("SlaExpired" if expired else "Failed", str(error))
        except DriverError as error:
            await event.end("Failed", str(error))
        else:
            await event.end("Succeeded")

    async def _call_driver(self, event: Event) -> None:
        work = event.work

        def report(progress: Progress) -> None:
            event.progress.append(progress)
            self._tasks.start(event.changed(), name="progress")

        self._note(event, (await self._channel.start(work)).state)
        self._note(event, (await self._channel.end(work, report)).state)

    def _note(self, event: Event, state: str) -> None:
        if state not in event.reached:  # a repeated call reaches it again
            event.reached.append(state)


@contextlib.asynccontextmanager
async def agent(driver: Driver, *, node_name: str = "node-1", clock: Clock | None = None) -> AsyncIterator[Agent]:
    """An agent for one driver, while the block lasts.

    Args:
        driver: the driver under test.
        node_name: the node that the events are for.
        clock: for deadlines; a `kube_fairlead.base.clock.VirtualClock` lets a test advance the time.
    """
    created = Agent(driver, clock or RealClock(), node_name=node_name)
    await created.open()
    try:
        yield created
    finally:
        await created.close()
