"""Terminate the pods of a node, group by group, in the order and the time of the shutdown plan.

The agent updates the API server in parallel. A pod waits for traffic to leave it only if its grace is not shortened by
that. A pod that exceeds the period of its group keeps terminating beside the next groups, until the whole time is over.
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
from kube_fairlead.lifecycle.shutdown_plan import ActiveGroup, EndingPod

__all__ = ["PodTerminator"]

_ANNOUNCE_SECONDS: Final = 2.0
_AT_ONCE: Final = 10
_RUNTIME_RETRY_SECONDS: Final = 0.5
# A call that hangs is repeated, and never delays the shutdown for longer than the pods may.
_RUNTIME_SECONDS: Final = 5.0
_NOT_KILLED: Final = "it was killed when its grace period was over, and has not ended"
_NOT_ANSWERED: Final = "the container runtime did not answer"

_log = logs.get_logger(__name__)


class PodTerminator:
    """Terminates the pods of one shutdown. Every method except `running` needs the block of `active`."""

    def __init__(
        self,
        progress: ShutdownProgress,
        runtime: PodRuntime,
        cache: PodCache,
        writer: PodWriter,
        results: PodResults,
        *,
        clock: Clock,
        reachability: ApiReachability,
        own_pods: Collection[str] = (),
    ) -> None:
        self._progress = progress
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._results = results
        self._clock = clock
        self._reachability = reachability
        self._own_pods = frozenset(own_pods)
        self._scope: tasks.TaskScope | None = None
        self._terminating: dict[str, asyncio.Task[None]] = {}  # by runtime uid
        self._torn_down: set[asyncio.Task[None]] = set()
        self._unanswered: set[str] = set()  # pods whose end the runtime does not report
        self._runtime_calls = asyncio.Semaphore(_AT_ONCE)  # in parallel

    @contextlib.asynccontextmanager
    async def active(self) -> AsyncIterator[None]:
        """Run terminations and status updates for the time of the block."""
        async with (
            self._results.reporting(),
            tasks.TaskScope("shutdown/termination", on_exit=tasks.OnExit.CANCEL) as scope,
        ):
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None

    async def end_all(self) -> None:
        """Terminate every pod except the agent's own, group by group, until none runs or the time is over."""
        running = self._without_restarted(await self.running())
        # An earlier agent may have begun a group, and was killed before it terminated all of its pods.
        unasked = frozenset(pod.uid for pod in running if pod.uid not in self._progress.state.asked)
        while running:
            facts = {pod.uid: self._facts(pod) for pod in running}
            periods = self._progress.state.periods
            groups = shutdown_plan.group_pods(periods, facts.values())
            under_way = self._progress.state.stage
            active = shutdown_plan.next_group(periods, groups, self._progress.elapsed, under_way, unasked)
            if active is None:
                break
            unasked = frozenset()
            members = [pod for group in groups[: active.index + 1] for pod in group.pods]
            if active != under_way:
                _log.info("pod group started", priority=periods[active.index].priority, pods=len(members))
                self._progress.change(msgspec.structs.replace(self._progress.state, stage=active))
            by_uid = {pod.uid: pod for pod in running}
            await self._end_group(active, [by_uid[pod.uid] for pod in members])
            # A runtime that kills containers responds slowly, so the next group begins with the pods known already.
            is_over = self._progress.elapsed >= active.ends
            known = [pod for pod in running if pod.uid not in self._terminating] if is_over else []
            running = known or self._without_restarted(await self.running())
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(self._progress.left):
                await self._wait_ended()

    def _without_restarted(self, running: Sequence[RunningPod] | None) -> Sequence[RunningPod]:
        """After the group's period, leave out pods that a kubelet restarts, which would be terminated forever."""
        active = self._progress.state.stage
        if active is None or self._progress.elapsed < active.ends:
            return running or ()
        return [pod for pod in running or () if pod.uid not in self._results.settled]

    @property
    def _runtime_seconds(self) -> float:
        return min(_RUNTIME_SECONDS, max(_RUNTIME_RETRY_SECONDS, self._progress.left))

    async def running(self) -> Sequence[RunningPod] | None:
        """Return the pods that are not terminating yet; None when there are none, or no time to list them."""
        while True:
            try:
                async with self._clock.timeout(self._runtime_seconds):
                    found = await self._runtime.running()
            except (RuntimeFailed, TimeoutError) as error:
                _log.error("cannot list running pods", error=str(error) or _NOT_ANSWERED)
                if not self._progress.left:
                    return None
                await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
                continue
            done_with = {*self._own_pods, *self._still_terminating()}
            return [pod for pod in found if pod.uid not in done_with] or None

    async def observe_remaining(self, seconds: float) -> None:
        """Wait for pods that exceed their time, and find out how pods ended that no agent observed.

        Pods that are unknown after `seconds` stay on disk as abandoned; their termination runs on in the block.
        """
        try:
            async with self._clock.timeout(seconds), tasks.TaskScope("shutdown/remaining") as scope:
                scope.start(self._wait_ended(), name="terminating")
                scope.start(self._observe_unseen(), name="unseen")
        except TimeoutError:
            _log.warning("end of some pods not observed")
        self._results.abandon(
            {
                **dict.fromkeys(sorted(self._unanswered), _NOT_ANSWERED),
                **dict.fromkeys(self._still_terminating(), _NOT_KILLED),
            }
        )

    async def wait_torn_down(self) -> None:
        """Wait until the sandboxes of ended pods are stopped."""
        if self._torn_down:
            await asyncio.wait(set(self._torn_down))

    async def _wait_ended(self) -> None:
        while left := self._still_terminating():
            await asyncio.wait([self._terminating[uid] for uid in left])

    def _still_terminating(self) -> list[str]:
        return [uid for uid, task in self._terminating.items() if not task.done()]

    async def _observe_unseen(self) -> None:
        """Find out how pods ended that no agent observed: no agent ran, or the kubelet terminated them."""
        state = self._progress.state
        known = self._own_pods | self._results.settled | set(self._still_terminating())
        stored = {pod.uid for pod in state.ended}  # by an earlier agent, and not in the API server yet
        rest = {pod.running().uid: pod.running() for pod in state.unseen if pod.running().uid not in known}
        for pod in self._cache.pods.values():
            shown = self._cache.current.get(pod.runtime_uid)
            if pod.runtime_uid not in known and pod.uid not in stored and not (shown and shown.finished):
                rest[pod.runtime_uid] = RunningPod(uid=pod.runtime_uid, namespace=pod.namespace, name=pod.name)
        self._unanswered.update(rest)
        async with tasks.TaskScope("shutdown/unseen") as scope:
            for gone in rest.values():
                scope.start(self._observe_end(gone), name=f"{gone.namespace}/{gone.name}")

    async def _observe_end(self, pod: RunningPod) -> None:
        while True:
            try:
                async with self._runtime_calls:
                    ends = await self._runtime.ended(pod)
                break
            except RuntimeFailed as error:
                _log.warning("cannot read how a pod ended", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        if ends or not self._results.is_unseen(pod):
            self._unanswered.discard(pod.uid)
        if ends:
            self._results.ended(pod, ends)

    async def _announce(self, active: ActiveGroup, members: Sequence[RunningPod]) -> None:
        """Announce the termination, and wait until traffic has left the pods or the API server does not respond."""
        known = [cached for pod in members if (cached := self._cache.pods.get(pod.uid)) is not None]
        if not known:
            return
        if self._reachability.is_lost:
            _log.warning("pods not announced to the API server", error="no response")
            return
        until = self._clock.monotonic() + _ANNOUNCE_SECONDS
        try:
            async with self._reachability.within(_ANNOUNCE_SECONDS):
                await self._writer.announce([(pod, active.allowed(pod.ending())) for pod in known])
            async with self._clock.timeout(until - self._clock.monotonic()):
                await self._writer.wait_unlisted(known)
        except API_ERRORS as error:
            _log.warning("pods not announced to the API server", error=str(error) or "no time")

    async def _end_group(self, active: ActiveGroup, members: Sequence[RunningPod]) -> None:
        """Terminate these pods, each as late as its grace allows, until they have ended or the period is over."""
        scope = self._active_scope()
        announcing = scope.start(self._announce(active, members), name="announce")
        waiting = list(members)
        while waiting:
            leads = {pod.uid: self._lead_left(active, pod) for pod in waiting}
            due = [pod for pod in waiting if announcing.done() or leads[pod.uid] <= 0]
            self._begin(active, due)
            waiting = [pod for pod in waiting if pod not in due]
            if waiting:
                with contextlib.suppress(TimeoutError):
                    async with self._clock.timeout(min(leads[pod.uid] for pod in waiting)):
                        await asyncio.wait([announcing])
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(max(0.0, active.ends - self._progress.elapsed)):
                await asyncio.wait([self._terminating[pod.uid] for pod in members])
        if late := [f"{pod.namespace}/{pod.name}" for pod in members if not self._terminating[pod.uid].done()]:
            _log.warning("pods exceed the period of their group", pods=late)

    def _begin(self, active: ActiveGroup, pods: Sequence[RunningPod]) -> None:
        fresh = self._results.asked(pods) if pods else frozenset()
        for pod in pods:
            ending = self._end(active, pod, is_fresh=pod.uid in fresh)
            self._terminating[pod.uid] = self._active_scope().start(ending, name=f"{pod.namespace}/{pod.name}")

    async def _end(self, active: ActiveGroup, pod: RunningPod, *, is_fresh: bool) -> None:
        """Terminate a pod. When its grace is over it is killed; a failed call is repeated."""
        while True:
            # Read the pod cache again: it may have been updated since the group was planned.
            known = self._cache.pods.get(pod.uid)
            hooks = {} if known is None else known.pre_stop
            elapsed = self._progress.elapsed
            # At first the full grace: the time of the write to disk does not count.
            asked, is_fresh = elapsed if is_fresh else self._results.asked_at(pod.uid), False
            grace = active.grace_left(self._facts(pod), elapsed, asked, self._own_group_seconds(pod))
            _log.info("terminating pod", pod=f"{pod.namespace}/{pod.name}", grace_seconds=round(grace, 3))
            try:
                ends = await self._runtime.end(
                    pod, grace_seconds=grace, hooks=hooks, on_exit=functools.partial(self._results.exited, pod)
                )
                break
            except RuntimeFailed as error:
                _log.error("cannot terminate pod", pod=f"{pod.namespace}/{pod.name}", error=str(error))
                self._results.refused(pod, str(error))
            # The runtime may be restarting.
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)
        self._results.ended(pod, ends)
        # The sandbox is stopped in parallel: neither the next group nor the pod's status waits for it.
        task = self._active_scope().start(self._tear_down(pod), name=f"{pod.namespace}/{pod.name}/sandbox")
        self._torn_down.add(task)
        task.add_done_callback(self._torn_down.discard)

    async def _tear_down(self, pod: RunningPod) -> None:
        try:
            await self._runtime.tear_down(pod)
        except RuntimeFailed as error:
            _log.warning("cannot remove pod sandbox", pod=pod.name, error=str(error))

    def _active_scope(self) -> tasks.TaskScope:
        if self._scope is None:
            raise RuntimeError("pods are terminated inside the block of active")
        return self._scope

    def _lead_left(self, active: ActiveGroup, pod: RunningPod) -> float:
        if pod.uid in self._progress.state.asked:
            return 0.0  # by an earlier agent, or before the kubelet restarted it
        return active.lead_left(self._facts(pod), self._progress.elapsed, self._own_group_seconds(pod))

    def _own_group_seconds(self, pod: RunningPod) -> int:
        periods = self._progress.state.periods
        return periods[shutdown_plan.group_of(periods, self._facts(pod).priority)].seconds

    def _facts(self, pod: RunningPod) -> EndingPod:
        known: CachedPod | None = self._cache.pods.get(pod.uid)
        if known is not None:
            return known.ending()
        return EndingPod(uid=pod.uid, namespace=pod.namespace, name=pod.name, grace_seconds=pod.grace_seconds)
