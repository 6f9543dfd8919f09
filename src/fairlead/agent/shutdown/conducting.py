"""Ending the pods of a node group by group, as the plan says and as long as it says.

Of every pod that has ended, how it ended is on disk before anybody is told, and stays there until the API knows. The
API is told beside the ending, never before it goes on; only traffic gets a moment to leave, where the API answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.agent.shutdown.ending import PodRuntime, RunningPod, RuntimeFailed
from fairlead.agent.shutdown.memory import EndedPod, Memory, ShutdownState
from fairlead.agent.shutdown.podcache import CachedPod, PodCache
from fairlead.agent.shutdown.podwriting import PodWriter
from fairlead.agent.shutdown.reach import API_ERRORS, Reach
from fairlead.base import logs, tasks
from fairlead.base.clock import Clock
from fairlead.lifecycle import shutdown_plan
from fairlead.lifecycle.shutdown_plan import EndingPod, Stage
from fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["Conductor", "Course"]

# What telling the API may take from a group's time before its containers are stopped all the same.
_ANNOUNCE_SECONDS: Final = 2.0
_ANNOUNCE_SHARE: Final = 0.25
_TELL_SECONDS: Final = 2.0
_TELL_AGAIN_SECONDS: Final = 0.25
_AT_ONCE: Final = 10
_RUNTIME_RETRY_SECONDS: Final = 0.5
# A runtime that hangs is asked again, and never holds the machine up for longer than its pods may.
_RUNTIME_SECONDS: Final = 5.0

_log = logs.get_logger(__name__)


class Course:
    """The state of one shutdown, in memory and on disk at once."""

    def __init__(self, memory: Memory, state: ShutdownState, elapsed: Callable[[ShutdownState], float]) -> None:
        self._memory = memory
        self._elapsed = elapsed
        self.state = state
        self.is_on_disk = True
        self._is_behind = False  # the disk remembers more than there is to remember

    @property
    def elapsed(self) -> float:
        """Seconds since the shutdown began."""
        return self._elapsed(self.state)

    @property
    def left(self) -> float:
        """Seconds until all groups' time is over."""
        periods = self.state.periods
        return max(0.0, shutdown_plan.latest_end(periods, len(periods) - 1) - self.elapsed)

    def change(self, state: ShutdownState) -> None:
        """Remember. A disk that fails is no reason to stop."""
        self.state = state
        self._is_behind = False
        try:
            self._memory.save(state)
            self.is_on_disk = True
        except OSError as error:
            if self.is_on_disk:
                _log.error("cannot write down how far the shutdown is: a restart would begin anew", error=str(error))
            self.is_on_disk = False

    def change_later(self, state: ShutdownState) -> None:
        """Remember with the next change. For what may be forgotten: every write waits for the disk, and so do pods."""
        self.state = state
        self._is_behind = True

    def catch_up(self) -> None:
        """Remember what was left for later."""
        if self._is_behind:
            self.change(self.state)


class Conductor:
    """Ends pods. Made for one shutdown."""

    def __init__(
        self,
        course: Course,
        runtime: PodRuntime,
        cache: PodCache,
        writer: PodWriter,
        *,
        clock: Clock,
        reach: Reach,
        own_pods: Collection[str] = (),
        on_ended: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self._course = course
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._reach = reach
        self._own_pods = frozenset(own_pods)
        self._on_ended = on_ended
        self._given_up: set[str] = set()
        self._refused: dict[str, RunningPod] = {}  # the runtime would not end these in their time
        self._settled: set[str] = set()  # how these ended is known
        self._telling: tasks.TaskScope | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)  # to tell the API
        self._questions = asyncio.Semaphore(_AT_ONCE)  # to the runtime
        self._told = asyncio.Event()

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """As long as the block lasts, the API is told how pods have ended: those of an earlier process too."""
        async with tasks.TaskScope("shutdown/telling", on_exit=tasks.OnExit.CANCEL) as scope:
            self._telling = scope
            for pod in self._course.state.ended:
                self._start_telling(pod)
            try:
                yield
            finally:
                self._telling = None
                self._course.catch_up()

    async def wait_told(self) -> None:
        """Until the API knows how every pod has ended."""
        while self._course.state.ended:
            self._told.clear()
            await self._told.wait()

    async def end_all(self) -> None:
        """End every pod but our own, group by group. Returns when none runs, or all time is over."""
        while running := self._without_those_that_had_their_turn(await self.running()):
            facts = {pod.uid: self._facts(pod) for pod in running}
            periods = self._course.state.periods
            groups = shutdown_plan.group_pods(periods, facts.values())
            first = next(group for group in groups if group.pods)
            under_way = self._course.state.stage
            last = first.index if under_way is None else max(first.index, under_way.index)
            members = [pod for group in groups[: last + 1] for pod in group.pods]
            await self._announce(members, periods[last].seconds)
            stage = shutdown_plan.next_stage(periods, groups, self._course.elapsed, under_way)
            if stage is None:
                break
            if stage != under_way:
                _log.info("a group of pods ends", priority=periods[stage.index].priority, pods=len(members))
                self._course.change(msgspec.structs.replace(self._course.state, stage=stage))
            by_uid = {pod.uid: pod for pod in running}
            await self._end_group(stage, [by_uid[pod.uid] for pod in members])
        async with tasks.TaskScope("shutdown/refused") as scope:
            for pod in self._refused.values():
                scope.start(self._kill(pod), name=f"{pod.namespace}/{pod.name}")

    def _without_those_that_had_their_turn(self, running: Sequence[RunningPod] | None) -> Sequence[RunningPod]:
        """A kubelet that cannot be stopped starts again what is ended; that ends again, but not for ever."""
        stage = self._course.state.stage
        if stage is None or self._course.elapsed < stage.ends:
            return running or ()
        return [pod for pod in running or () if pod.uid not in self._settled]

    @property
    def _runtime_seconds(self) -> float:
        return min(_RUNTIME_SECONDS, max(_RUNTIME_RETRY_SECONDS, self._course.left))

    async def running(self) -> Sequence[RunningPod] | None:
        """The pods that are still to end; None when there is none, or no time to find out."""
        while True:
            try:
                async with self._clock.timeout(self._runtime_seconds):
                    found = await self._runtime.running()
            except (RuntimeFailed, TimeoutError) as error:
                _log.error("cannot see which pods run", error=str(error) or "the runtime does not answer")
                if not self._course.left:
                    return None
                await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
                continue
            done_with = {*self._own_pods, *self._given_up, *self._refused}
            return [pod for pod in found if pod.uid not in done_with] or None

    async def account_for_the_rest(self) -> None:
        """Pods that nobody saw end: no agent was there, or the kubelet ended them and has not said so."""
        known = self._own_pods | self._given_up | self._settled
        noted = {pod.uid for pod in self._course.state.ended}  # by an earlier process, and not told yet
        async with tasks.TaskScope("shutdown/accounting") as scope:
            for pod in self._cache.pods.values():
                shown = self._cache.current.get(pod.runtime_uid)
                if pod.runtime_uid not in known and pod.uid not in noted and not (shown and shown.finished):
                    scope.start(self._account_for(pod), name=f"{pod.namespace}/{pod.name}")

    async def _account_for(self, pod: CachedPod) -> None:
        gone = RunningPod(uid=pod.runtime_uid, namespace=pod.namespace, name=pod.name)
        while True:
            try:
                async with self._questions:
                    ends = await self._runtime.ended(gone)
                break
            except RuntimeFailed as error:
                _log.warning("cannot see how a pod ended", pod=f"{pod.namespace}/{pod.name}", error=str(error))
                if not self._course.left:
                    return
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        if ends:
            self._ended(gone, pod, ends)

    async def _announce(self, members: Sequence[EndingPod], group_seconds: int) -> None:
        """Have traffic leave the pods first; but not at the price of the time they have to end."""
        known = [cached for pod in members if (cached := self._cache.pods.get(pod.uid)) is not None]
        graces = {
            pod.uid: min(group_seconds, group_seconds if pod.grace_seconds is None else pod.grace_seconds)
            for pod in members
        }
        allowed = min(_ANNOUNCE_SECONDS, self._course.left, group_seconds * _ANNOUNCE_SHARE)
        if not known or allowed <= 0:
            return
        if self._reach.is_lost:
            _log.warning("pods end without the API knowing it first", error="it does not answer")
            return
        until = self._clock.monotonic() + allowed
        try:
            async with self._reach.within(allowed):
                await self._writer.announce([(pod, graces[pod.runtime_uid]) for pod in known])
            async with self._clock.timeout(until - self._clock.monotonic()):
                await self._writer.wait_unlisted(known)
        except API_ERRORS as error:
            _log.warning("pods end without the API knowing it first", error=str(error) or "no time")

    async def _end_group(self, stage: Stage, members: Sequence[RunningPod]) -> None:
        async with tasks.TaskScope("shutdown/group", on_exit=tasks.OnExit.CANCEL) as scope:
            ending = {scope.start(self._end(stage, pod), name=f"{pod.namespace}/{pod.name}"): pod for pod in members}
            # A killed container takes a moment to be gone; that moment is not taken from the next group.
            try:
                async with self._clock.timeout(max(0.5, stage.ends - self._course.elapsed + 0.5)):
                    await asyncio.wait(ending)
            except TimeoutError:
                pass
            left = [pod for task, pod in ending.items() if not task.done()]
        for pod in left:
            _log.error("a pod did not end in its time", pod=f"{pod.namespace}/{pod.name}")
            self._give_up(pod, "abandoned")

    async def _end(self, stage: Stage, pod: RunningPod) -> None:
        periods = self._course.state.periods
        while True:
            # As it is known now: more may have been heard of the pod since the group was made up.
            known, facts = self._cache.pods.get(pod.uid), self._facts(pod)
            own_group = periods[shutdown_plan.group_of(periods, facts.priority)].seconds
            hooks = {} if known is None else known.pre_stop
            grace = stage.grace_left(facts, self._course.elapsed, own_group)
            _log.info("ending a pod", pod=f"{pod.namespace}/{pod.name}", grace_seconds=round(grace, 3))
            try:
                ends = await self._runtime.end(pod, grace_seconds=grace, hooks=hooks)
                break
            except RuntimeFailed as error:
                _log.error("a pod cannot be ended", pod=f"{pod.namespace}/{pod.name}", error=str(error))
                if self._course.elapsed >= stage.ends:
                    self._refused[pod.uid] = pod
                    return
            # A runtime that is just being restarted gets another chance, as long as there is time.
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        self._ended(pod, known, ends)

    async def _kill(self, pod: RunningPod) -> None:
        """What had its time goes as soon as the runtime does what it is asked, while there is any time at all."""
        while self._course.left:
            try:
                async with self._clock.timeout(self._runtime_seconds):
                    ends = await self._runtime.end(pod, grace_seconds=0.0, hooks={})
            except (RuntimeFailed, TimeoutError) as error:
                why = str(error) or "the runtime does not answer"
                _log.error("a pod cannot be ended", pod=f"{pod.namespace}/{pod.name}", error=why)
                await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
            else:
                self._ended(pod, self._cache.pods.get(pod.uid), ends)
                return
        self._give_up(pod, "failed")

    def _ended(self, pod: RunningPod, known: CachedPod | None, ends: Mapping[str, ContainerEnd]) -> None:
        told = pod if known is None else known  # the API's name for it comes first
        ended = EndedPod(uid=told.uid, namespace=told.namespace, name=told.name, containers=dict(ends))
        state = self._course.state
        outcomes = state.outcomes
        if pod.uid not in self._settled:  # one that was started again is not counted again
            self._settled.add(pod.uid)
            outcome = "killed" if any(end.exit_code == 137 for end in ends.values()) else "ended"
            self._on_ended(outcome)
            outcomes = {**outcomes, outcome: outcomes.get(outcome, 0) + 1}
        others = tuple(one for one in state.ended if one.uid != ended.uid)
        self._course.change(msgspec.structs.replace(state, ended=(*others, ended), outcomes=outcomes))
        self._start_telling(ended)

    def _start_telling(self, pod: EndedPod) -> None:
        if self._telling is not None:
            self._telling.start(self._tell(pod), name=f"{pod.namespace}/{pod.name}")

    async def _tell(self, pod: EndedPod) -> None:
        """Until the API knows. What it does not learn in time is told after the next boot."""
        while True:
            try:
                async with self._turns, self._reach.within(_TELL_SECONDS):
                    await self._writer.finish(pod, moves=self._moves(pod.uid))
                break
            except API_ERRORS as error:
                _log.debug("the API does not know yet how a pod ended", pod=pod.name, error=str(error))
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("telling of a pod fails in a way that was not foreseen", pod=pod.name)
            await self._clock.sleep(_TELL_AGAIN_SECONDS)
        left = tuple(one for one in self._course.state.ended if one.uid != pod.uid)
        self._course.change_later(msgspec.structs.replace(self._course.state, ended=left))
        self._told.set()

    def _moves(self, uid: str) -> bool:
        # A kubelet that ends pods leaves them where they are, and so does whoever writes down what it owes.
        return self._course.state.owner == "agent" and any(
            pod.moves for pod in self._cache.pods.values() if pod.uid == uid
        )

    def _give_up(self, pod: RunningPod, outcome: str) -> None:
        self._given_up.add(pod.uid)
        self._on_ended(outcome)
        state = self._course.state
        counted = {**state.outcomes, outcome: state.outcomes.get(outcome, 0) + 1}
        self._course.change(msgspec.structs.replace(state, outcomes=counted))

    def _facts(self, pod: RunningPod) -> EndingPod:
        known = self._cache.pods.get(pod.uid)
        if known is not None:
            return known.ending()
        return EndingPod(uid=pod.uid, namespace=pod.namespace, name=pod.name, grace_seconds=pod.grace_seconds)
