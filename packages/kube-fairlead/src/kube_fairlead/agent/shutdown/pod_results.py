"""How each pod of a shutdown ended: stored on disk first, then in the API server.

    terminating --(its containers were observed to exit)--> ended --(its status was written)--> no longer stored

A pod is on disk from the start of its termination until the API server has its final status. If the agent is killed in
between, or the operating system does not wait any longer, the next agent finds the pod and its exited containers there
and writes its final status.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

import msgspec

from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.agent.shutdown.pod_cache import PodCache
from kube_fairlead.agent.shutdown.pod_runtime import PodRuntime, RunningPod, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_writer import PodWriter
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.agent.shutdown.state_file import Boot, EndedPod
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["PodResults"]

_REPORT_SECONDS: Final = 2.0
_REPORT_RETRY_SECONDS: Final = 0.25
_AT_ONCE: Final = 10
_RUNTIME_RETRY_SECONDS: Final = 0.5
# After a boot the container runtime may still be starting. What it does not report by then stays unknown.
_RUNTIME_STARTS_SECONDS: Final = 10.0
_NOT_SEEN: Final = "the node shut down before the agent observed its end"

_log = logs.get_logger(__name__)


class PodResults:
    """The pods of one shutdown. `reporting` updates the API server for the time of its block."""

    def __init__(
        self,
        progress: ShutdownProgress,
        cache: PodCache,
        writer: PodWriter,
        *,
        clock: Clock,
        reachability: ApiReachability,
        boot: Boot,
        on_ended: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self._progress = progress
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._reachability = reachability
        self._boot = boot
        self._on_ended = on_ended
        self.settled: set[str] = set()  # runtime uids of pods whose end is known
        self._abandoned: set[str] = set()
        self._reporting: tasks.TaskScope | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._reported = asyncio.Event()

    @contextlib.asynccontextmanager
    async def reporting(self) -> AsyncIterator[None]:
        """Write statuses to the API server for the time of the block, also those that an earlier agent left."""
        async with tasks.TaskScope("shutdown/reporting", on_exit=tasks.OnExit.CANCEL) as scope:
            self._reporting = scope
            for pod in self._progress.state.ended:
                self._start_report(pod)
            try:
                yield
            finally:
                self._reporting = None
                self._progress.flush()

    async def wait_reported(self) -> None:
        """Wait until the API server has the final status of every ended pod."""
        while self._progress.state.ended:
            self._reported.clear()
            await self._reported.wait()

    def asked_at(self, uid: str) -> float:
        """Return when the termination of a pod began, in seconds since the shutdown began; now, if it did not."""
        return self._progress.state.asked.get(uid, self._progress.elapsed)

    def asked(self, pods: Iterable[RunningPod]) -> frozenset[str]:
        """Store that the termination of these pods begins. A pod that was terminating keeps its start.

        Returns the uids of those that were not terminating.
        """
        pods = list(pods)
        state, elapsed, now = self._progress.state, self._progress.elapsed, self._clock.now()
        moments, unseen = dict(state.asked), {pod.running().uid: pod for pod in state.unseen}
        for pod in pods:
            moments.setdefault(pod.uid, elapsed)
            if pod.uid not in unseen:
                entry = self._named(pod)
                unseen[pod.uid] = msgspec.structs.replace(entry, asked_time=now)
        self._progress.change(msgspec.structs.replace(state, asked=moments, unseen=tuple(unseen.values())))
        return frozenset(pod.uid for pod in pods if pod.uid not in state.asked)

    def is_unseen(self, pod: RunningPod) -> bool:
        """Whether it is terminating and was not observed to end."""
        return any(one.running().uid == pod.uid for one in self._progress.state.unseen)

    def exited(self, pod: RunningPod, name: str, end: ContainerEnd) -> None:
        """A container of a terminating pod has exited."""
        self._change_unseen(pod, containers={name: end})
        if self._reporting is not None:
            self._reporting.start(self._store(), name="store")

    def refused(self, pod: RunningPod, why: str) -> None:
        """The container runtime failed to terminate it; the agent retries."""
        self._change_unseen(pod, problem=why)

    def ended(self, pod: RunningPod, ends: Mapping[str, ContainerEnd]) -> None:
        """All containers of a pod have exited."""
        entry = self._named(pod)
        state = self._progress.state
        known = next((one.containers for one in state.unseen if one.uid == entry.uid), {})
        ended = msgspec.structs.replace(entry, containers={**known, **ends})
        outcomes = state.outcomes
        if pod.uid not in self.settled:  # a restarted pod is not counted again
            self.settled.add(pod.uid)
            outcome = "killed" if any(end.exit_code == 137 for end in ends.values()) else "ended"
            outcomes = self._counted(outcomes, outcome)
        others = tuple(one for one in state.ended if one.uid != entry.uid)
        unseen = tuple(one for one in state.unseen if one.uid != entry.uid)
        self._progress.change_unsaved(
            msgspec.structs.replace(state, ended=(*others, ended), unseen=unseen, outcomes=outcomes)
        )
        self._start_report(ended)

    def abandon(self, uids: Mapping[str, str]) -> None:
        """Stop waiting for these pods; `uids` maps each to its problem. The agent of the next boot resolves them."""
        state = self._progress.state
        outcomes, unseen = state.outcomes, {pod.running().uid: pod for pod in state.unseen}
        for uid, problem in uids.items():
            if uid in self._abandoned or uid in self.settled:
                continue
            self._abandoned.add(uid)
            pod = unseen.get(uid)
            if pod is None:
                if (cached := self._cache.pods.get(uid)) is None:
                    continue  # deleted from the API server meanwhile
                pod = self._named(RunningPod(uid=uid, namespace=cached.namespace, name=cached.name))
            outcomes = self._counted(outcomes, "failed" if pod.problem else "abandoned")
            unseen[uid] = pod = msgspec.structs.replace(pod, problem=pod.problem or problem)
            _log.error("pod end not observed", pod=f"{pod.namespace}/{pod.name}", problem=pod.problem)
        self._progress.change(msgspec.structs.replace(state, outcomes=outcomes, unseen=tuple(unseen.values())))

    async def resolve_unseen(self, runtime: PodRuntime) -> None:
        """After the shutdown, find out how the pods ended that were not observed to end."""
        async with tasks.TaskScope("shutdown/unseen") as scope:
            for pod in self._progress.state.unseen:
                scope.start(self._resolve(runtime, pod), name=f"{pod.namespace}/{pod.name}")

    async def _resolve(self, runtime: PodRuntime, pod: EndedPod) -> None:
        runs, problem = False, pod.problem or _NOT_SEEN
        ends: Mapping[str, ContainerEnd] = {}
        try:
            async with self._clock.timeout(_RUNTIME_STARTS_SECONDS):
                runs, ends = await self._read_runtime(runtime, pod.running())
        except TimeoutError:
            _log.warning("container runtime does not report how the pod ended", pod=f"{pod.namespace}/{pod.name}")
        state = self._progress.state
        unseen = tuple(one for one in state.unseen if one.uid != pod.uid)
        is_over = pod.boot_id != self._boot.boot_id or bool(ends)
        if runs or not is_over:
            # The kubelet restarted it, or it survived a cancelled shutdown: the kubelet writes its status.
            _log.info("pod left to the kubelet", pod=f"{pod.namespace}/{pod.name}", runs=runs)
            self._progress.change(msgspec.structs.replace(state, unseen=unseen))
            return
        ended = msgspec.structs.replace(pod, containers={**ends, **pod.containers}, problem=problem)
        self._progress.change(msgspec.structs.replace(state, unseen=unseen, ended=(*state.ended, ended)))
        self._start_report(ended)

    async def _read_runtime(self, runtime: PodRuntime, pod: RunningPod) -> tuple[bool, Mapping[str, ContainerEnd]]:
        """Return whether the pod runs now, and how its containers exited."""
        while True:
            try:
                if any(one.uid == pod.uid for one in await runtime.running()):
                    return True, {}
                return False, await runtime.ended(pod)
            except RuntimeFailed as error:
                _log.debug("retrying container runtime", pod=pod.name, error=str(error))
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)

    def _named(self, pod: RunningPod) -> EndedPod:
        """Return the entry of a pod, with the API server's uid and name if the pod cache has them."""
        known = self._cache.pods.get(pod.uid)
        uid = pod.uid if known is None else known.uid
        return EndedPod(
            uid=uid,
            runtime_uid="" if uid == pod.uid else pod.uid,
            namespace=pod.namespace if known is None else known.namespace,
            name=pod.name if known is None else known.name,
            boot_id=self._boot.boot_id,
        )

    def _change_unseen(
        self, pod: RunningPod, *, containers: Mapping[str, ContainerEnd] | None = None, problem: str = ""
    ) -> None:
        changed = [
            one
            if one.running().uid != pod.uid
            else msgspec.structs.replace(one, containers={**one.containers, **(containers or {})}, problem=problem)
            for one in self._progress.state.unseen
        ]
        self._progress.change_unsaved(msgspec.structs.replace(self._progress.state, unseen=tuple(changed)))

    def _counted(self, outcomes: Mapping[str, int], outcome: str) -> dict[str, int]:
        self._on_ended(outcome)
        return {**outcomes, outcome: outcomes.get(outcome, 0) + 1}

    async def _store(self) -> None:
        """Write the changes of one moment together."""
        self._progress.flush()

    def _start_report(self, pod: EndedPod) -> None:
        if self._reporting is not None:
            self._reporting.start(self._report(pod), name=f"{pod.namespace}/{pod.name}")
        else:
            self._progress.flush()

    async def _report(self, pod: EndedPod) -> None:
        """Write the final status, and retry until it is stored. The agent of the next boot continues."""
        self._progress.flush()  # disk first; pods that ended in one moment share a write
        while True:
            try:
                async with self._turns, self._reachability.within(_REPORT_SECONDS):
                    await self._writer.finish(pod, moves=self._moves(pod.uid), restarted_after=self._restarts(pod))
                break
            except API_ERRORS as error:
                _log.debug("retrying pod status update", pod=pod.name, error=str(error))
            except Exception:  # noqa: BLE001 - no error here may stop the termination of pods
                _log.exception("pod status update failed unexpectedly", pod=pod.name)
            await self._clock.sleep(_REPORT_RETRY_SECONDS)
        # Compared as a whole: a pod that ended again has another entry.
        left = tuple(one for one in self._progress.state.ended if one != pod)
        self._progress.change_unsaved(msgspec.structs.replace(self._progress.state, ended=left))
        self._reported.set()

    def _moves(self, uid: str) -> bool:
        # A kubelet does not delete the pods that it terminates, so the agent does not delete them for it.
        return self._progress.state.owner == "agent" and any(
            pod.moves for pod in self._cache.pods.values() if pod.uid == uid
        )

    def _restarts(self, pod: EndedPod) -> dt.datetime | None:
        """Return from when a running container is a restarted one: the boot, if the pod ended in an earlier boot."""
        is_of_earlier = pod.boot_id and pod.boot_id != self._boot.boot_id
        return self._boot.booted_at if is_of_earlier else None
