"""Ending the pods of a node group by group, as the plan says and as long as it says.

The API is updated beside the ending. A pod waits for traffic to leave it only for time that it can spare. A pod that
outlives its group's time stays in hand while the next groups end, until there is no time left in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

import msgspec

from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.agent.shutdown.pod_cache import CachedPod, PodCache
from kube_fairlead.agent.shutdown.pod_results import PodResults
from kube_fairlead.agent.shutdown.pod_runtime import PodRuntime, RunningPod, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_writer import PodWriter
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.lifecycle import shutdown_plan
from kube_fairlead.lifecycle.shutdown_plan import EndingPod, Stage

__all__ = ["PodTerminator"]

_ANNOUNCE_SECONDS: Final = 2.0
_AT_ONCE: Final = 10
_RUNTIME_RETRY_SECONDS: Final = 0.5
# A runtime that hangs is asked again, and never holds the machine up for longer than its pods may.
_RUNTIME_SECONDS: Final = 5.0
_NOT_KILLED: Final = "it was killed when its time was over, and has not ended"
_NOT_ANSWERED: Final = "the container runtime did not answer"

_log = logs.get_logger(__name__)


class PodTerminator:
    """Ends pods. Made for one shutdown; everything but `running` needs the block of `at_work`."""

    def __init__(
        self,
        course: ShutdownProgress,
        runtime: PodRuntime,
        cache: PodCache,
        writer: PodWriter,
        accounts: PodResults,
        *,
        clock: Clock,
        reach: ApiReachability,
        own_pods: Collection[str] = (),
    ) -> None:
        self._course = course
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._accounts = accounts
        self._clock = clock
        self._reach = reach
        self._own_pods = frozenset(own_pods)
        self._scope: tasks.TaskScope | None = None
        self._in_hand: dict[str, asyncio.Task[None]] = {}  # by the runtime's uid
        self._torn_down: set[asyncio.Task[None]] = set()
        self._unanswered: set[str] = set()  # pods of which the runtime does not say how they ended
        self._questions = asyncio.Semaphore(_AT_ONCE)  # to the runtime

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """As long as the block lasts, pods that were asked to end are seen to it, and the API is updated."""
        async with (
            self._accounts.telling(),
            tasks.TaskScope("shutdown/ending", on_exit=tasks.OnExit.CANCEL) as scope,
        ):
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None

    async def end_all(self) -> None:
        """End every pod but our own, group by group. Returns when none runs, or all time is over."""
        running = self._without_those_that_had_their_turn(await self.running())
        # An agent before this one may have begun with a group, and not lived to ask all of its pods.
        unasked = frozenset(pod.uid for pod in running if pod.uid not in self._course.state.asked)
        while running:
            facts = {pod.uid: self._facts(pod) for pod in running}
            periods = self._course.state.periods
            groups = shutdown_plan.group_pods(periods, facts.values())
            under_way = self._course.state.stage
            stage = shutdown_plan.next_stage(periods, groups, self._course.elapsed, under_way, unasked)
            if stage is None:
                break
            unasked = frozenset()
            members = [pod for group in groups[: stage.index + 1] for pod in group.pods]
            if stage != under_way:
                _log.info("a group of pods ends", priority=periods[stage.index].priority, pods=len(members))
                self._course.change(msgspec.structs.replace(self._course.state, stage=stage))
            by_uid = {pod.uid: pod for pod in running}
            await self._end_group(stage, [by_uid[pod.uid] for pod in members])
            # A runtime that is busy killing takes its time to answer. The next group's begins now, with those known.
            is_over = self._course.elapsed >= stage.ends
            known = [pod for pod in running if pod.uid not in self._in_hand] if is_over else []
            running = known or self._without_those_that_had_their_turn(await self.running())
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(self._course.left):
                await self._wait_ended()

    def _without_those_that_had_their_turn(self, running: Sequence[RunningPod] | None) -> Sequence[RunningPod]:
        """A kubelet that cannot be stopped starts again what is ended; that ends again, but not for ever."""
        stage = self._course.state.stage
        if stage is None or self._course.elapsed < stage.ends:
            return running or ()
        return [pod for pod in running or () if pod.uid not in self._accounts.settled]

    @property
    def _runtime_seconds(self) -> float:
        return min(_RUNTIME_SECONDS, max(_RUNTIME_RETRY_SECONDS, self._course.left))

    async def running(self) -> Sequence[RunningPod] | None:
        """The pods that are still to be asked to end; None when there is none, or no time to find out."""
        while True:
            try:
                async with self._clock.timeout(self._runtime_seconds):
                    found = await self._runtime.running()
            except (RuntimeFailed, TimeoutError) as error:
                _log.error("cannot see which pods run", error=str(error) or _NOT_ANSWERED)
                if not self._course.left:
                    return None
                await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
                continue
            done_with = {*self._own_pods, *self._still_in_hand()}
            return [pod for pod in found if pod.uid not in done_with] or None

    async def see_the_rest(self, seconds: float) -> None:
        """The last look, for so long at most: pods that outlive their time, and pods that no agent saw end.

        What is not known by then stays on disk, and is given up; those in hand are seen to as long as the block lasts.
        """
        try:
            async with self._clock.timeout(seconds), tasks.TaskScope("shutdown/last-look") as scope:
                scope.start(self._wait_ended(), name="in-hand")
                scope.start(self._account_for_the_rest(), name="accounting")
        except TimeoutError:
            _log.warning("not all pods were seen to end")
        self._accounts.give_up(
            {
                **dict.fromkeys(sorted(self._unanswered), _NOT_ANSWERED),
                **dict.fromkeys(self._still_in_hand(), _NOT_KILLED),
            }
        )

    async def wait_torn_down(self) -> None:
        """Until the networks of pods that have ended are removed."""
        if self._torn_down:
            await asyncio.wait(set(self._torn_down))

    async def _wait_ended(self) -> None:
        while left := self._still_in_hand():
            await asyncio.wait([self._in_hand[uid] for uid in left])

    def _still_in_hand(self) -> list[str]:
        return [uid for uid, task in self._in_hand.items() if not task.done()]

    async def _account_for_the_rest(self) -> None:
        """Pods that no agent saw end: none was there, or the kubelet ended them and has not said so."""
        state = self._course.state
        known = self._own_pods | self._accounts.settled | set(self._still_in_hand())
        noted = {pod.uid for pod in state.ended}  # by an earlier process, and not told yet
        rest = {pod.running().uid: pod.running() for pod in state.unseen if pod.running().uid not in known}
        for pod in self._cache.pods.values():
            shown = self._cache.current.get(pod.runtime_uid)
            if pod.runtime_uid not in known and pod.uid not in noted and not (shown and shown.finished):
                rest[pod.runtime_uid] = RunningPod(uid=pod.runtime_uid, namespace=pod.namespace, name=pod.name)
        self._unanswered.update(rest)
        async with tasks.TaskScope("shutdown/accounting") as scope:
            for gone in rest.values():
                scope.start(self._account_for(gone), name=f"{gone.namespace}/{gone.name}")

    async def _account_for(self, pod: RunningPod) -> None:
        while True:
            try:
                async with self._questions:
                    ends = await self._runtime.ended(pod)
                break
            except RuntimeFailed as error:
                _log.warning("cannot see how a pod ended", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        if ends or not self._accounts.is_unseen(pod):
            self._unanswered.discard(pod.uid)
        if ends:
            self._accounts.ended(pod, ends)

    async def _announce(self, stage: Stage, members: Sequence[RunningPod]) -> None:
        """Have traffic leave the pods. Returns when it has, or when that is not to be expected."""
        known = [cached for pod in members if (cached := self._cache.pods.get(pod.uid)) is not None]
        if not known:
            return
        if self._reach.is_lost:
            _log.warning("pods end without the API knowing it first", error="it does not answer")
            return
        until = self._clock.monotonic() + _ANNOUNCE_SECONDS
        try:
            async with self._reach.within(_ANNOUNCE_SECONDS):
                await self._writer.announce([(pod, stage.allowed(pod.ending())) for pod in known])
            async with self._clock.timeout(until - self._clock.monotonic()):
                await self._writer.wait_unlisted(known)
        except API_ERRORS as error:
            _log.warning("pods end without the API knowing it first", error=str(error) or "no time")

    async def _end_group(self, stage: Stage, members: Sequence[RunningPod]) -> None:
        """Ask all of them to end, each as late as it can afford, and wait until they have or their time is over."""
        scope = self._at_work()
        announcing = scope.start(self._announce(stage, members), name="announce")
        waiting = list(members)
        while waiting:
            leads = {pod.uid: self._lead_left(stage, pod) for pod in waiting}
            due = [pod for pod in waiting if announcing.done() or leads[pod.uid] <= 0]
            self._ask(stage, due)
            waiting = [pod for pod in waiting if pod not in due]
            if waiting:
                with contextlib.suppress(TimeoutError):
                    async with self._clock.timeout(min(leads[pod.uid] for pod in waiting)):
                        await asyncio.wait([announcing])
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(max(0.0, stage.ends - self._course.elapsed)):
                await asyncio.wait([self._in_hand[pod.uid] for pod in members])
        if late := [f"{pod.namespace}/{pod.name}" for pod in members if not self._in_hand[pod.uid].done()]:
            _log.warning("pods outlive the time of their group", pods=late)

    def _ask(self, stage: Stage, pods: Sequence[RunningPod]) -> None:
        fresh = self._accounts.asked(pods) if pods else frozenset()
        for pod in pods:
            ending = self._end(stage, pod, is_fresh=pod.uid in fresh)
            self._in_hand[pod.uid] = self._at_work().start(ending, name=f"{pod.namespace}/{pod.name}")

    async def _end(self, stage: Stage, pod: RunningPod, *, is_fresh: bool) -> None:
        """Until it has ended. A pod whose time is over is killed; a runtime that refuses is asked again."""
        while True:
            # As it is known now: more may have been heard of the pod since the group was made up.
            known = self._cache.pods.get(pod.uid)
            hooks = {} if known is None else known.pre_stop
            elapsed = self._course.elapsed
            # The first time all it may have: what the disk took to note it is not taken from the pod.
            asked, is_fresh = elapsed if is_fresh else self._accounts.asked_at(pod.uid), False
            grace = stage.grace_left(self._facts(pod), elapsed, asked, self._own_group_seconds(pod))
            _log.info("ending a pod", pod=f"{pod.namespace}/{pod.name}", grace_seconds=round(grace, 3))
            try:
                ends = await self._runtime.end(
                    pod, grace_seconds=grace, hooks=hooks, on_exit=functools.partial(self._accounts.exited, pod)
                )
                break
            except RuntimeFailed as error:
                _log.error("a pod cannot be ended", pod=f"{pod.namespace}/{pod.name}", error=str(error))
                self._accounts.refused(pod, str(error))
            # A runtime that is just being restarted gets another chance, as long as there is time.
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        self._accounts.ended(pod, ends)
        # Its network is removed beside whatever comes next: no group waits for that, and no status.
        task = self._at_work().start(self._tear_down(pod), name=f"{pod.namespace}/{pod.name}/sandbox")
        self._torn_down.add(task)
        task.add_done_callback(self._torn_down.discard)

    async def _tear_down(self, pod: RunningPod) -> None:
        try:
            await self._runtime.tear_down(pod)
        except RuntimeFailed as error:
            _log.warning("the sandbox of a pod is left behind", pod=pod.name, error=str(error))

    def _at_work(self) -> tasks.TaskScope:
        if self._scope is None:
            raise RuntimeError("pods are ended inside the block of at_work")
        return self._scope

    def _lead_left(self, stage: Stage, pod: RunningPod) -> float:
        if pod.uid in self._course.state.asked:
            return 0.0  # by an earlier process, or before the kubelet started it again
        return stage.lead_left(self._facts(pod), self._course.elapsed, self._own_group_seconds(pod))

    def _own_group_seconds(self, pod: RunningPod) -> int:
        periods = self._course.state.periods
        return periods[shutdown_plan.group_of(periods, self._facts(pod).priority)].seconds

    def _facts(self, pod: RunningPod) -> EndingPod:
        known: CachedPod | None = self._cache.pods.get(pod.uid)
        if known is not None:
            return known.ending()
        return EndingPod(uid=pod.uid, namespace=pod.namespace, name=pod.name, grace_seconds=pod.grace_seconds)
