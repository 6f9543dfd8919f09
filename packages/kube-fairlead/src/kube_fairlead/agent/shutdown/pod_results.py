"""What became of each pod of a shutdown: on disk first, then in the API.

    asked to end --(its containers were seen to end)--> ended --(the API was updated)--> no longer kept

A pod is on disk from the moment it is asked to end until the API shows its last status. Whatever cuts the agent off in
between (a kill, the machine's own limit, a container that no signal ends), the next boot finds the pod there, with
the containers that were seen to end, and finishes the account.
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
from kube_fairlead.agent.shutdown.state_file import EndedPod, Machine
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["PodResults"]

_TELL_SECONDS: Final = 2.0
_TELL_AGAIN_SECONDS: Final = 0.25
_AT_ONCE: Final = 10
_RUNTIME_RETRY_SECONDS: Final = 0.5
# After a boot the container runtime may still be starting. What it does not say by then is not known.
_RUNTIME_STARTS_SECONDS: Final = 10.0
_NOT_SEEN: Final = "the node went down before the agent saw it end"

_log = logs.get_logger(__name__)


class PodResults:
    """The pods of one shutdown. `telling` updates the API as long as its block lasts."""

    def __init__(
        self,
        course: ShutdownProgress,
        cache: PodCache,
        writer: PodWriter,
        *,
        clock: Clock,
        reach: ApiReachability,
        machine: Machine,
        on_ended: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self._course = course
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._reach = reach
        self._machine = machine
        self._on_ended = on_ended
        self.settled: set[str] = set()  # by the runtime's uid: how these ended is known
        self._given_up: set[str] = set()
        self._telling: tasks.TaskScope | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._told = asyncio.Event()

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """As long as the block lasts, the API is updated: about pods that an earlier process saw end, too."""
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
        """Until the API shows how every pod has ended that was seen to end."""
        while self._course.state.ended:
            self._told.clear()
            await self._told.wait()

    def asked_at(self, uid: str) -> float:
        """When a pod was asked to end, in seconds since the shutdown began; now, when it was not."""
        return self._course.state.asked.get(uid, self._course.elapsed)

    def asked(self, pods: Iterable[RunningPod]) -> frozenset[str]:
        """These are asked to end now. One that was asked before keeps its moment: its time is not given twice.

        Returns the uids of those that were not.
        """
        pods = list(pods)
        state, elapsed, now = self._course.state, self._course.elapsed, self._clock.now()
        moments, unseen = dict(state.asked), {pod.running().uid: pod for pod in state.unseen}
        for pod in pods:
            moments.setdefault(pod.uid, elapsed)
            if pod.uid not in unseen:
                noted = self._named(pod)
                unseen[pod.uid] = msgspec.structs.replace(noted, asked_time=now)
        self._course.change(msgspec.structs.replace(state, asked=moments, unseen=tuple(unseen.values())))
        return frozenset(pod.uid for pod in pods if pod.uid not in state.asked)

    def is_unseen(self, pod: RunningPod) -> bool:
        """Whether it was asked to end and was not seen to have ended."""
        return any(one.running().uid == pod.uid for one in self._course.state.unseen)

    def exited(self, pod: RunningPod, name: str, end: ContainerEnd) -> None:
        """A container of a pod that is being ended has ended."""
        self._change_unseen(pod, containers={name: end})
        if self._telling is not None:
            self._telling.start(self._store(), name="store")

    def refused(self, pod: RunningPod, why: str) -> None:
        """The container runtime did not end it, so far."""
        self._change_unseen(pod, problem=why)

    def ended(self, pod: RunningPod, ends: Mapping[str, ContainerEnd]) -> None:
        """All containers of a pod were seen to end."""
        noted = self._named(pod)
        state = self._course.state
        known = next((one.containers for one in state.unseen if one.uid == noted.uid), {})
        ended = msgspec.structs.replace(noted, containers={**known, **ends})
        outcomes = state.outcomes
        if pod.uid not in self.settled:  # one that was started again is not counted again
            self.settled.add(pod.uid)
            outcome = "killed" if any(end.exit_code == 137 for end in ends.values()) else "ended"
            outcomes = self._counted(outcomes, outcome)
        others = tuple(one for one in state.ended if one.uid != noted.uid)
        unseen = tuple(one for one in state.unseen if one.uid != noted.uid)
        self._course.change_later(
            msgspec.structs.replace(state, ended=(*others, ended), unseen=unseen, outcomes=outcomes)
        )
        self._start_telling(ended)

    def give_up(self, uids: Mapping[str, str]) -> None:
        """There is no time left to see these end; with each what is in the way. The next boot finds them on disk."""
        state = self._course.state
        outcomes, unseen = state.outcomes, {pod.running().uid: pod for pod in state.unseen}
        for uid, problem in uids.items():
            if uid in self._given_up or uid in self.settled:
                continue
            self._given_up.add(uid)
            pod = unseen.get(uid)
            if pod is None:
                if (cached := self._cache.pods.get(uid)) is None:
                    continue  # deleted from the API meanwhile
                pod = self._named(RunningPod(uid=uid, namespace=cached.namespace, name=cached.name))
            outcomes = self._counted(outcomes, "failed" if pod.problem else "abandoned")
            unseen[uid] = pod = msgspec.structs.replace(pod, problem=pod.problem or problem)
            _log.error("pod not seen to end", pod=f"{pod.namespace}/{pod.name}", problem=pod.problem)
        self._course.change(msgspec.structs.replace(state, outcomes=outcomes, unseen=tuple(unseen.values())))

    async def settle(self, runtime: PodRuntime) -> None:
        """After the shutdown: finish the accounts of pods that were asked to end and not seen to have ended."""
        async with tasks.TaskScope("shutdown/settling") as scope:
            for pod in self._course.state.unseen:
                scope.start(self._settle(runtime, pod), name=f"{pod.namespace}/{pod.name}")

    async def _settle(self, runtime: PodRuntime, pod: EndedPod) -> None:
        runs, problem = False, pod.problem or _NOT_SEEN
        ends: Mapping[str, ContainerEnd] = {}
        try:
            async with self._clock.timeout(_RUNTIME_STARTS_SECONDS):
                runs, ends = await self._asked_runtime(runtime, pod.running())
        except TimeoutError:
            _log.warning("the container runtime does not say how a pod ended", pod=f"{pod.namespace}/{pod.name}")
        state = self._course.state
        unseen = tuple(one for one in state.unseen if one.uid != pod.uid)
        is_over = pod.boot_id != self._machine.boot_id or bool(ends)
        if runs or not is_over:
            # The kubelet has started it again, or it outlived a shutdown that was called off: the kubelet's to report.
            _log.info("pod left to the kubelet", pod=f"{pod.namespace}/{pod.name}", runs=runs)
            self._course.change(msgspec.structs.replace(state, unseen=unseen))
            return
        ended = msgspec.structs.replace(pod, containers={**ends, **pod.containers}, problem=problem)
        self._course.change(msgspec.structs.replace(state, unseen=unseen, ended=(*state.ended, ended)))
        self._start_telling(ended)

    async def _asked_runtime(self, runtime: PodRuntime, pod: RunningPod) -> tuple[bool, Mapping[str, ContainerEnd]]:
        """Whether it runs now, and which of its containers have ended."""
        while True:
            try:
                if any(one.uid == pod.uid for one in await runtime.running()):
                    return True, {}
                return False, await runtime.ended(pod)
            except RuntimeFailed as error:
                _log.debug("the container runtime is asked again", pod=pod.name, error=str(error))
            await self._clock.sleep(_RUNTIME_RETRY_SECONDS)

    def _named(self, pod: RunningPod) -> EndedPod:
        """By the API's name for it, which comes first; the runtime's where the API was never asked."""
        known = self._cache.pods.get(pod.uid)
        uid = pod.uid if known is None else known.uid
        return EndedPod(
            uid=uid,
            runtime_uid="" if uid == pod.uid else pod.uid,
            namespace=pod.namespace if known is None else known.namespace,
            name=pod.name if known is None else known.name,
            boot_id=self._machine.boot_id,
        )

    def _change_unseen(
        self, pod: RunningPod, *, containers: Mapping[str, ContainerEnd] | None = None, problem: str = ""
    ) -> None:
        changed = [
            one
            if one.running().uid != pod.uid
            else msgspec.structs.replace(one, containers={**one.containers, **(containers or {})}, problem=problem)
            for one in self._course.state.unseen
        ]
        self._course.change_later(msgspec.structs.replace(self._course.state, unseen=tuple(changed)))

    def _counted(self, outcomes: Mapping[str, int], outcome: str) -> dict[str, int]:
        self._on_ended(outcome)
        return {**outcomes, outcome: outcomes.get(outcome, 0) + 1}

    async def _store(self) -> None:
        """What became known in one moment is one write."""
        self._course.catch_up()

    def _start_telling(self, pod: EndedPod) -> None:
        if self._telling is not None:
            self._telling.start(self._tell(pod), name=f"{pod.namespace}/{pod.name}")
        else:
            self._course.catch_up()

    async def _tell(self, pod: EndedPod) -> None:
        """Until the API shows it. What it does not learn in time it learns after the next boot."""
        self._course.catch_up()  # the disk comes first; pods that ended in one moment share a write
        while True:
            try:
                async with self._turns, self._reach.within(_TELL_SECONDS):
                    await self._writer.finish(pod, moves=self._moves(pod.uid), restarted_after=self._restarts(pod))
                break
            except API_ERRORS as error:
                _log.debug("the API does not know yet how a pod ended", pod=pod.name, error=str(error))
            except Exception:  # noqa: BLE001 - whatever is wrong with telling, pods must end
                _log.exception("telling of a pod fails in a way that was not foreseen", pod=pod.name)
            await self._clock.sleep(_TELL_AGAIN_SECONDS)
        left = tuple(one for one in self._course.state.ended if one != pod)  # one that ended again is another account
        self._course.change_later(msgspec.structs.replace(self._course.state, ended=left))
        self._told.set()

    def _moves(self, uid: str) -> bool:
        # A kubelet that ends pods leaves them where they are, and so does the agent where it writes what it owes.
        return self._course.state.owner == "agent" and any(
            pod.moves for pod in self._cache.pods.values() if pod.uid == uid
        )

    def _restarts(self, pod: EndedPod) -> dt.datetime | None:
        """Since when a container that runs is another life of it: it ended in an earlier boot."""
        is_of_earlier = pod.boot_id and pod.boot_id != self._machine.boot_id
        return self._machine.booted_at if is_of_earlier else None
