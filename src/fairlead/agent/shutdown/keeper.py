"""The keeper of a node: hears that the machine goes down, sees its pods out, and lets it go.

    standing by --(going down)--> telling and ending pods --> flushed --> the machine is let go
                                        |  (called off)
                                        '--> everything is taken back, standing by again

What to make of what a starting keeper finds is decided by `lifecycle.shutdown_recovery`; the order and the times of
ending by `lifecycle.shutdown_plan`. Whatever is written on the way can be done again by the next process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, assert_never, cast

import msgspec

from fairlead.agent.shutdown.conducting import API_ERRORS, Conductor, Course
from fairlead.agent.shutdown.ears import Ear
from fairlead.agent.shutdown.ending import KubeletControl, PodRuntime, RuntimeFailed
from fairlead.agent.shutdown.memory import Memory, ShutdownState
from fairlead.agent.shutdown.podcache import PodCache
from fairlead.agent.shutdown.podwriting import PodWriter
from fairlead.agent.shutdown.recording import NotYet, Record
from fairlead.agent.shutdown.telling import Teller
from fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from fairlead.api.reserved import NODE_SHUTDOWN
from fairlead.base import logs, tasks
from fairlead.base.backoff import Backoff
from fairlead.client.client import Client
from fairlead.lifecycle import shutdown_recovery
from fairlead.lifecycle.shutdown_config import ShutdownConfig
from fairlead.lifecycle.shutdown_recovery import Witness

__all__ = ["FLUSH_MARGIN_SECONDS", "Keeper", "KeeperOptions", "Machine", "Parts"]

FLUSH_MARGIN_SECONDS: Final = 2.0
"""How much longer than its pods' time the machine is asked to wait: the last status is stored before it goes."""

_INTERRUPTION: Final = "node is shutting down"

_EVIDENCE_SECONDS: Final = 3.0
_STEP_SECONDS: Final = 10.0
_KUBELET_POLL_SECONDS: Final = 0.25
_OWN_NODE_SECONDS: Final = 0.5
_RETRY: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=2.0, jitter=0.3)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Which boot this is."""

    boot_id: str
    booted_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """What an administrator chose."""

    node_name: str
    config: ShutdownConfig
    folder: Path  # where the memory is
    owner: str = "auto"  # auto, kubelet or agent
    kubelet_is_configured: bool = False  # its own configuration says that it ends pods
    well_known_conditions: bool = True
    records_events: bool = True  # a LifecycleEvent stands for the shutdown
    own_pods: frozenset[str] = frozenset()  # uids of the pods that this agent itself runs in


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a keeper works with."""

    ear: Ear
    runtime: PodRuntime
    kubelet: KubeletControl
    machine: Machine
    interrupt: Callable[[str], None] = lambda _why: None  # nothing else may go on at this node; empty: it may again
    is_quiet: Callable[[], bool] = lambda: True  # an interruption has come through: nobody else claims for the node


class Keeper:
    """Looks after one node's shutdowns. `run` is all there is to call."""

    def __init__(self, client: Client, options: KeeperOptions, parts: Parts, teller: Teller) -> None:
        self.options = options
        self.memory = Memory(options.folder)
        self.cache = PodCache(options.folder, options.node_name)
        self._client = client
        self._clock = client.clock
        self._parts = parts
        self._teller = teller
        self._record = Record(client, options.node_name, well_known=options.well_known_conditions)
        self._writer = PodWriter(client)
        self._api_was_asked = False

    async def run(self) -> None:
        """Run until cancelled. A shutdown under way goes on with the next process."""
        needed = self.options.config.budget_seconds + FLUSH_MARGIN_SECONDS
        async with tasks.TaskScope("shutdown", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self.cache.run(self._client), name="pods")
            async with self._parts.ear.running(needed):
                course = await self._find_out()
                while True:
                    course = await self._follow(course)

    async def _find_out(self) -> shutdown_recovery.Course:
        """What an agent that starts finds: on its disk, else in the API; and what the machine says."""
        state = self.memory.load()
        if state is not None:
            self._api_was_asked = True  # it could say no more
            return self._recovered(state.witness(), None, None)
        event = condition = None
        try:
            async with self._clock.timeout(_EVIDENCE_SECONDS):
                event, condition = await self._record.witnesses(events=self.options.records_events)
            self._api_was_asked = True
        except API_ERRORS as error:
            _log.info("the API cannot say whether the node is going down", error=str(error) or "no answer")
        return self._recovered(None, event, condition)

    def _recovered(
        self, file: Witness | None, event: Witness | None, condition: Witness | None
    ) -> shutdown_recovery.Course:
        return shutdown_recovery.recover(
            shutdown_recovery.Found(
                boot_id=self._parts.machine.boot_id,
                booted_at=self._parts.machine.booted_at,
                now=self._clock.now(),
                budget_seconds=self.options.config.budget_seconds,
                preparing=self._parts.ear.preparing,
                file=file,
                event=event,
                condition=condition,
            )
        )

    async def _follow(self, course: shutdown_recovery.Course) -> shutdown_recovery.Course:
        """Go one course to its end; the course to follow then."""
        match course:
            case shutdown_recovery.StandBy():
                return await self._stand_by()
            case shutdown_recovery.Begin():
                return await self._go_down(await self._begun())
            case shutdown_recovery.GoOn(started_at, complete):
                _log.info("a shutdown is under way, and goes on", since=str(started_at), complete=complete)
                return await self._go_down(await self._resumed(started_at))
            case shutdown_recovery.CalledOff():
                return await self._take_back()
            case shutdown_recovery.CameBack(started_at, complete):
                return await self._come_back(started_at, complete=complete)
            case other:
                assert_never(other)

    async def _stand_by(self) -> shutdown_recovery.Course:
        async with tasks.TaskScope("shutdown/standing-by", on_exit=tasks.OnExit.CANCEL) as scope:
            word = scope.start(self._parts.ear.next_word(), name="word")
            waiting: list[asyncio.Task[Any]] = [word]
            if not self._api_was_asked:
                waiting.append(scope.start(self._ask_api(), name="evidence"))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not word.done():
                return cast("shutdown_recovery.Course", waiting[-1].result())
            return shutdown_recovery.Begin() if word.result() else shutdown_recovery.StandBy()

    async def _ask_api(self) -> shutdown_recovery.Course:
        """An API server that was out of reach at the start may know of a shutdown that the disk does not."""
        event = condition = None

        async def ask() -> None:
            nonlocal event, condition
            event, condition = await self._record.witnesses(events=self.options.records_events)

        await self._until_done(ask)
        self._api_was_asked = True
        return self._recovered(None, event, condition)

    async def _begun(self) -> Course:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        before = self.memory.load()  # of a shutdown that was not wound up yet
        # Memory comes first: from here on no crash makes the node forget.
        course = self._course(
            ShutdownState(
                boot_id=self._parts.machine.boot_id,
                start_time=now,
                start_monotonic=monotonic,
                owner="",
                periods=self.options.config.periods,
                cordoned=before is not None and before.cordoned,
                ended=() if before is None else before.ended,
            )
        )
        course.change(course.state)
        _log.info("the machine is going down", budget_seconds=self.options.config.budget_seconds)
        self._teller.began(self.options.node_name, now)
        owner = await self._owner()
        course.change(msgspec.structs.replace(course.state, owner=owner))
        return course

    async def _resumed(self, started_at: dt.datetime) -> Course:
        state = self.memory.load()
        if state is not None and state.boot_id == self._parts.machine.boot_id and state.owner:
            return self._course(state)
        # The disk was lost, or the process died at its first step: what others say is enough to count from.
        since = max(0.0, (self._clock.now() - started_at).total_seconds())
        made = ShutdownState(
            boot_id=self._parts.machine.boot_id,
            start_time=started_at,
            start_monotonic=self._clock.monotonic() - since,
            owner=await self._owner(),
            periods=self.options.config.periods,
        )
        course = self._course(made)
        course.change(made)
        return course

    def _course(self, state: ShutdownState) -> Course:
        boot_id = self._parts.machine.boot_id

        def elapsed(known: ShutdownState) -> float:
            return known.elapsed(boot_id=boot_id, now=self._clock.now(), monotonic=self._clock.monotonic())

        return Course(self.memory, state, elapsed)

    async def _owner(self) -> str:
        """Who ends the pods of this shutdown."""
        if self.options.owner != "auto":
            return self.options.owner
        try:
            holds = await self._parts.kubelet.ends_pods()
        except RuntimeFailed as error:
            _log.warning("cannot see whether the kubelet ends pods", error=str(error))
            holds = False
        return "kubelet" if holds or self.options.kubelet_is_configured else "agent"

    async def _go_down(self, course: Course) -> shutdown_recovery.Course:
        """See everybody out, and let the machine go; unless the shutdown is called off before that."""
        self._parts.interrupt(_INTERRUPTION)
        async with tasks.TaskScope("shutdown/course", on_exit=tasks.OnExit.CANCEL) as scope:
            leaving = scope.start(self._leave(course), name="leave")
            called_off = scope.start(self._wait_called_off(), name="called-off")
            await asyncio.wait([leaving, called_off], return_when=asyncio.FIRST_COMPLETED)
            if not called_off.done():
                leaving.result()
                await called_off  # the machine goes down now; only a cancellation makes us go on
        return shutdown_recovery.CalledOff(course.state.start_time)

    async def _wait_called_off(self) -> None:
        while await self._parts.ear.next_word():
            pass

    async def _leave(self, course: Course) -> None:
        conductor = Conductor(
            course,
            self._parts.runtime,
            self.cache,
            self._writer,
            clock=self._clock,
            own_pods=self.options.own_pods,
            on_ended=self._teller.pod_ended,
        )
        async with tasks.TaskScope("shutdown/leaving", on_exit=tasks.OnExit.CANCEL) as scope:
            telling = scope.start(self._tell_began(course), name="tell")
            recording = scope.start(self._record_event(course, telling), name="record")
            if course.state.complete_time is None:
                if course.state.owner == "kubelet":
                    await self._watch_kubelet(course, conductor)
                if course.state.owner == "agent":
                    await self._stop_kubelet(course)
                    looking = scope.start(self._own_node(), name="node")
                    await conductor.end_all()
                    await tasks.cancel_and_wait(looking)
                course.change(msgspec.structs.replace(course.state, complete_time=self._clock.now()))
                self._teller.completed(self.options.node_name, self._clock.now(), course.state.outcomes)
            await conductor.flush_in_time()
            await self._tell_complete(course, telling, recording)
        await self._parts.ear.release()

    async def _watch_kubelet(self, course: Course, conductor: Conductor) -> None:
        """Let the kubelet end its pods. One that lets go of the machine while pods run has forgotten: we take over."""
        while course.left:
            try:
                holds = await self._parts.kubelet.ends_pods()
            except RuntimeFailed:
                holds = True  # nobody to ask; it may well be at work
            if not holds:
                if await conductor.running() is None:
                    return
                break
            await self._clock.sleep(_KUBELET_POLL_SECONDS)
        _log.warning("the kubelet does not end its pods any more; taking over", left_seconds=round(course.left, 1))
        course.change(msgspec.structs.replace(course.state, owner="agent"))

    async def _stop_kubelet(self, course: Course) -> None:
        course.change(msgspec.structs.replace(course.state, kubelet_stopped=True))
        try:
            await self._parts.kubelet.stop()
        except RuntimeFailed as error:
            _log.error("the kubelet cannot be stopped, and may start again what is ended", error=str(error))

    async def _own_node(self) -> None:
        """Nobody else looks after the node now: it stays not ready, and pods that come late are refused."""
        while True:
            try:
                async with self._clock.timeout(_STEP_SECONDS):
                    await self._record.publish(NODE_SHUTDOWN.start, with_ready=True)
                    for pod in self.cache.current.values():
                        if not pod.finished and not pod.deleting and not pod.status.container_statuses:
                            await self._writer.reject(pod)
            except API_ERRORS as error:
                _log.debug("the node is looked after again", error=str(error) or "no answer")
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("looking after the node fails in a way that was not foreseen")
            await self._clock.sleep(_OWN_NODE_SECONDS)

    async def _tell_began(self, course: Course) -> None:
        """Tell the API, and go on trying for as long as the pods take."""
        ours = course.state.owner == "agent"
        # A state that was reached is not left again (invariant 2).
        reached = NODE_SHUTDOWN.start if course.state.complete_time is None else NODE_SHUTDOWN.end
        await self._until_done(lambda: self._record.publish(reached, with_ready=ours))
        await self._until_done(lambda: self._keep_pods_away(course))

    async def _record_event(self, course: Course, telling: asyncio.Task[None]) -> None:
        """Have an event for it, once the node says so. It may have to wait for others, and nothing waits for it."""
        await asyncio.wait([telling])
        if self.options.records_events:
            await self._until_done(lambda: self._claim(course))
            await self._until_done(lambda: self._record.record_start(course.state))

    async def _claim(self, course: Course) -> None:
        # A claim of the same node's engine may have been on its way when it was interrupted (invariant 1).
        if not self._parts.is_quiet():
            raise NotYet("the node's other claims are not at rest")
        await self._record.claim(course.state)

    async def _keep_pods_away(self, course: Course) -> None:
        if await self._record.keep_pods_away():
            course.change(msgspec.structs.replace(course.state, cordoned=True))

    async def _tell_complete(self, course: Course, telling: asyncio.Task[None], recording: asyncio.Task[None]) -> None:
        ours = course.state.owner == "agent"
        try:
            async with self._clock.timeout(FLUSH_MARGIN_SECONDS):
                await asyncio.wait([telling])
                await self._until_done(lambda: self._record.publish(NODE_SHUTDOWN.end, with_ready=ours))
                await asyncio.wait([recording])
        except TimeoutError:
            _log.warning("the API does not know yet all there is to know of the shutdown")

    async def _take_back(self) -> shutdown_recovery.Course:
        """The shutdown was called off: the node takes pods again."""
        state = self.memory.load()
        _log.info("the shutdown was called off")
        self._teller.called_off(self.options.node_name)
        if state is None or state.kubelet_stopped:
            try:
                await self._parts.kubelet.start()
            except RuntimeFailed as error:
                _log.error("the kubelet cannot be started again", error=str(error))
        return await self._wind_up(
            state, "ShutdownCancelled", ClaimStatus.FAILED, "the shutdown of the node was called off"
        )

    async def _come_back(self, started_at: dt.datetime, *, complete: bool) -> shutdown_recovery.Course:
        """The machine was down and is up again: clear what is stale, tell what the API was not told then."""
        state = self.memory.load()
        outcomes = {} if state is None else state.outcomes
        self._teller.came_back(self.options.node_name, started_at, complete=complete, outcomes=outcomes)
        words = "the node went down and is up again"
        return await self._wind_up(state, "NodeStarted", ClaimStatus.SUCCEEDED, words)

    async def _wind_up(
        self, state: ShutdownState | None, why: str, outcome: ClaimStatus, message: str
    ) -> shutdown_recovery.Course:
        """Bring the API up to date, for as long as that takes, and forget. A new shutdown comes first."""
        async with tasks.TaskScope("shutdown/winding-up", on_exit=tasks.OnExit.CANCEL) as scope:
            word = scope.start(self._parts.ear.next_word(), name="word")
            work = scope.start(self._clean(state, why, outcome, message), name="clean")
            await asyncio.wait([work, word], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                self.memory.clear()
                self._parts.interrupt("")
            goes_down = word.done() and word.result()
        return shutdown_recovery.Begin() if goes_down else shutdown_recovery.StandBy()

    async def _clean(self, state: ShutdownState | None, why: str, outcome: ClaimStatus, message: str) -> None:
        if state is not None and state.ended:
            conductor = Conductor(self._course(state), self._parts.runtime, self.cache, self._writer, clock=self._clock)
            await conductor.flush()
        uncordon = state is not None and state.cordoned
        if self.options.records_events:
            await self._until_done(lambda: self._record.settle(outcome, message))
        await self._until_done(lambda: self._record.clear_conditions(why))
        await self._until_done(lambda: self._record.let_pods_in(uncordon=uncordon))

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        delays = _RETRY.delays(self._client.randomness)
        while True:
            try:
                async with self._clock.timeout(_STEP_SECONDS):
                    await step()
            except (*API_ERRORS, NotYet) as error:
                _log.debug("the API is told again", error=str(error) or "no answer")
                await self._clock.sleep(next(delays))
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("telling the API fails in a way that was not foreseen")
                await self._clock.sleep(next(delays))
            else:
                return
