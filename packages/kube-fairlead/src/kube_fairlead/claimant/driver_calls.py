"""Driver calls: one at a time for an event, repeated when the driver disconnects, cancelled at the deadline."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import math
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff, Delays
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.claimant.driver_directory import DriverDirectory, Registration
from kube_fairlead.claimant.driver_probe import DriverProbe
from kube_fairlead.driverapi.errors import DriverError, DriverGone
from kube_fairlead.driverapi.messages import Progress, Reached, Work
from kube_fairlead.lifecycle import invariants
from kube_fairlead.lifecycle.facts import IDLE, Calling, Ended, Offer, Refused, Run, Settings, Started, Unreachable

__all__ = ["DriverCalls", "Step"]

Step = Literal["start", "end"]

_RECONNECT: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=5.0, jitter=0.5)
# A call that lasts this long has reached its driver. After each loss of the driver it takes twice as long, so that a
# driver that exits a little later in every call counts as lost in the end, as one that does not register again.
_STEADY_SECONDS: Final = 5.0
# An answer of a driver counts for one claim, and no longer than this.
_ANSWER_COUNTS_SECONDS: Final = 5.0

_DRIVER_LOST: Final = Settings().driver_lost

_log = logs.get_logger(__name__)


class _Trust:
    """How long a call must last before its driver counts as reachable, from how often it was lost for one event.

    A call that lasted as long as the wait for a lost driver resets the count.
    """

    def __init__(self, lost_seconds: float) -> None:
        self._lost_seconds = lost_seconds
        self._losses = 0
        self._furthest = 0

    @property
    def steady_seconds(self) -> float:
        return _STEADY_SECONDS * 2.0 ** max(0, self._losses - 1)

    def lost(self, lasted_seconds: float) -> None:
        self._losses = 1 if lasted_seconds >= self._lost_seconds else self._losses + 1

    def progressed(self, progress: Progress) -> None:
        """Progress beyond the furthest so far counts, however often the driver exits."""
        if progress.done > self._furthest:
            self._furthest = progress.done
            self._losses = min(self._losses, 1)


class DriverCalls:
    """The driver calls of this process, and their results.

    `runs` is what decisions see. Invariant: an event has at most one call under way, and a call that is cancelled is
    over when `cancel` returns.
    """

    def __init__(
        self,
        directory: DriverDirectory,
        probe: DriverProbe,
        *,
        claimant: str,
        clock: Clock,
        randomness: Randomness,
        on_change: Callable[[], None],
        driver_lost: dt.timedelta = _DRIVER_LOST,
    ) -> None:
        self._lost_seconds = driver_lost.total_seconds()
        self.runs: dict[str, Run] = {}
        self.progress: dict[str, Progress] = {}  # reported and not written yet, by event uid
        self.asked: dict[Offer, None] = {}  # probes in progress
        self._answered: dict[Offer, float] = {}  # the last answer to a probe, on the monotonic clock
        self._directory = directory
        self._probe = probe
        self._claimant = claimant
        self._clock = clock
        self._randomness = randomness
        self._on_change = on_change
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._tasks = tasks.TaskSet("execution")

    def ask(self, offer: Offer) -> None:
        """Probe a driver. The result will be in `unasked`, or in the directory's unreachable."""
        self.asked[offer] = None
        self._tasks.start(self._ask(offer), name=f"ask/{offer[0]}")

    def unasked(self) -> frozenset[Offer]:
        """The offers of drivers whose last answer is too old to claim an event for them."""
        fresh = self._clock.monotonic() - _ANSWER_COUNTS_SECONDS
        offers = ((driver, *pair) for driver, pairs in self._directory.drivers().items() for pair in pairs)
        return frozenset(offer for offer in offers if self._answered.get(offer, -math.inf) < fresh)

    async def _ask(self, offer: Offer) -> None:
        try:
            for registration in self._directory.able_to(*offer):
                if await self._probe.probe(registration):
                    self._answered[offer] = self._clock.monotonic()
                    break
        finally:
            del self.asked[offer]
            self._on_change()

    def call(self, event: LifecycleEvent, step: Step, *, deadline: dt.datetime | None) -> None:
        """Begin a call, which ends at the deadline. Its outcome will be in `runs`."""
        invariants.check_may_start(event, self._claimant)
        if event.uid in self._calls:
            raise invariants.InvariantBroken(3, f"event {event.name} has a call under way already")
        self._answered.clear()
        # The driver stays unreachable until this call has lasted long enough.
        lost_at = event.status.driver_unreachable_time
        self.runs[event.uid] = Calling() if lost_at is None else Calling(Unreachable(lost_at, ""))
        task = self._tasks.start(self._run(event, step, deadline), name=f"{step}/{event.name}")
        self._calls[event.uid] = task
        task.add_done_callback(lambda ended: self._ended(event.uid, ended))

    async def cancel(self, uid: str) -> None:
        """Cancel the call of an event, if there is one, and remove its result."""
        task = self._calls.get(uid)
        if task is not None:
            await tasks.cancel_and_wait(task)
            self._ended(uid, task)
        self.forget(uid)

    def forget(self, uid: str) -> None:
        """Remove the result of an event's call."""
        self.runs.pop(uid, None)
        self.progress.pop(uid, None)

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._calls.get(uid) is task:
            del self._calls[uid]

    async def close(self) -> None:
        """End all calls."""
        await self._tasks.close()

    async def _run(self, event: LifecycleEvent, step: Step, deadline: dt.datetime | None) -> None:
        seconds = _seconds_until(deadline, self._clock.now())
        outcome: Run
        try:
            async with self._clock.timeout(seconds):
                outcome = await self._call_until_answered(event, step, _work(event, deadline))
        except TimeoutError:
            # The decision that follows is not made here. If the clock was set back, the event has more time and the
            # driver gets another call.
            _log.info("driver call cancelled at the deadline", event=event.name, step=step)
            outcome = IDLE
        except Exception as error:  # noqa: BLE001 - whatever a driver causes, its event must end
            _log.exception("driver call failed", event=event.name, step=step)
            outcome = Refused(self._clock.now(), f"calling the driver failed: {type(error).__name__}: {error}")
        if self._calls.get(event.uid) is asyncio.current_task():
            # The engine may begin the next call at once, so this one is removed first.
            del self._calls[event.uid]
            self.runs[event.uid] = outcome
        self._on_change()

    async def _call_until_answered(self, event: LifecycleEvent, step: Step, work: Work) -> Run:
        driver = event.status.driver
        delays = _RECONNECT.delays(self._randomness)
        trust = _Trust(self._lost_seconds)
        while True:
            for registration in self._directory.able_to(driver, work.start, work.end):
                called = self._clock.monotonic()
                try:
                    async with self._reachable_while_it_lasts(event.uid, delays, trust):
                        reached = await self._call_once(registration, event, step, work, trust)
                except DriverGone as error:
                    trust.lost(self._clock.monotonic() - called)
                    _log.info("driver disconnected, retrying", event=event.name, step=step, error=str(error))
                    self._directory.mark_unreachable(registration, Unreachable(self._clock.now(), str(error)))
                    self._unreachable(event.uid, str(error))
                    await self._clock.sleep(next(delays))
                except DriverError as error:
                    return Refused(self._clock.now(), str(error))
                else:
                    return self._judged(reached, step, work)
            if not self._directory.able_to(driver, work.start, work.end):
                unreachable = self._directory.unreachable().get(driver)
                self._unreachable(event.uid, "it is no longer registered" if unreachable is None else unreachable.error)
                await self._directory_changes()

    @contextlib.asynccontextmanager
    async def _reachable_while_it_lasts(self, uid: str, delays: Delays, trust: _Trust) -> AsyncIterator[None]:
        """A call that lasts long enough has reached its driver again."""

        async def steady() -> None:
            await self._clock.sleep(trust.steady_seconds)
            delays.reset()
            self.runs[uid] = Calling()
            self._on_change()

        task = self._tasks.start(steady(), name=f"steady/{uid}") if self.runs.get(uid) != Calling() else None
        try:
            yield
        finally:
            if task is not None:
                await tasks.cancel_and_wait(task)

    def _unreachable(self, uid: str, error: str) -> None:
        """No driver can be called. The time counts from the first failure."""
        run = self.runs.get(uid)
        known = run.unreachable if isinstance(run, Calling) else None
        unreachable = Unreachable(self._clock.now() if known is None else known.since, error)
        if unreachable != known:
            self.runs[uid] = Calling(unreachable)
            self._on_change()

    async def _call_once(
        self, registration: Registration, event: LifecycleEvent, step: Step, work: Work, trust: _Trust
    ) -> Reached:
        _log.info("calling driver", event=event.name, step=step, driver=registration.driver)
        seconds = _seconds_until(work.deadline, self._clock.now())
        if step == "start":
            return await registration.channel.start(work, timeout_seconds=seconds)

        def on_progress(progress: Progress) -> None:
            self.progress[event.uid] = progress
            trust.progressed(progress)
            self._on_change()

        return await registration.channel.end(work, on_progress, timeout_seconds=seconds)

    def _judged(self, reached: Reached, step: Step, work: Work) -> Run:
        now = self._clock.now()
        expected = (work.start if step == "start" else work.end, work.node_name)
        if (reached.state, reached.node_name) != expected:
            what = f"{reached.state!r} on node {reached.node_name!r}"
            return Refused(now, f"the driver answered that it reached {what[:300]}, which was not requested")
        return Started(now) if step == "start" else Ended(now, reached.message)

    async def _directory_changes(self) -> None:
        """Wait until a driver registers, leaves, or answers again."""
        changed = asyncio.Event()
        forget = self._directory.on_change(changed.set)
        try:
            await changed.wait()
        finally:
            forget()


def _work(event: LifecycleEvent, deadline: dt.datetime | None) -> Work:
    status = event.status
    if status.transition is None:
        raise ValueError(f"event {event.name} is not claimed")
    return Work(
        event_uid=event.uid,
        event_name=event.name,
        node_name=event.spec.binding_node,
        node_uid=status.node_uid,
        transition_name=event.spec.transition_name,
        start=status.transition.start,
        end=status.transition.end,
        options=status.options,
        deadline=deadline,
    )


def _seconds_until(deadline: dt.datetime | None, now: dt.datetime) -> float | None:
    return None if deadline is None else max(0.0, (deadline - now).total_seconds())
