"""The shutdown manager of a node: it terminates the pods before the machine goes down, and then releases the machine.

    waiting --(shutdown announced)--> publishing, terminating pods --> statuses stored --> the machine is released
                                            |  (cancelled)
                                            '--> everything is reverted, waiting again

`lifecycle.shutdown_recovery` decides what a manager does when it starts, `lifecycle.shutdown_plan` the order and the
time of the pods. The next process can repeat every write.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any, Final, assert_never, cast

import msgspec

from kube_fairlead.agent.agent import Agent
from kube_fairlead.agent.shutdown import kubelet_watch
from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder, record_problems
from kube_fairlead.agent.shutdown.listener import ShutdownListener
from kube_fairlead.agent.shutdown.pod_cache import PodCache
from kube_fairlead.agent.shutdown.pod_results import PodResults
from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, PodRuntime, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_terminator import PodTerminator
from kube_fairlead.agent.shutdown.pod_writer import PodWriter
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.agent.shutdown.state_file import Boot, EndedPod, ShutdownState, StateFile
from kube_fairlead.agent.shutdown.status_reporter import ShutdownStatusReporter
from kube_fairlead.agent.shutdown.status_writer import ShutdownStatusWriter
from kube_fairlead.agent.shutdown_driver import ShutdownDriver
from kube_fairlead.base import logs, tasks
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle import shutdown_recovery
from kube_fairlead.lifecycle.shutdown_config import ShutdownConfig
from kube_fairlead.lifecycle.shutdown_recovery import ShutdownEvidence

__all__ = ["FLUSH_MARGIN_SECONDS", "ShutdownDependencies", "ShutdownManager", "ShutdownOptions"]

FLUSH_MARGIN_SECONDS: Final = 5.0
"""How much longer than its pods' time the machine is asked to wait.

A pod that uses up the time of the last group is killed at its end. The exit of the pod, its record on disk and its last
status follow, and each takes a moment on a busy machine.
"""

_EVIDENCE_SECONDS: Final = 3.0
_STATUS_POLL_SECONDS: Final = 0.05
# Everything after the last group: never longer than the machine waits, and not for ever when it would.
_CLOSING_SECONDS: Final = 5.0
_CLOSING_LEAST_SECONDS: Final = 0.5
_RELEASE_SECONDS: Final = 0.25
# For the API after the end of the last pod was observed, or given up; half of what is left where that is less.
_LAST_WRITES_SECONDS: Final = 1.5

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownOptions:
    """What an administrator chose."""

    node_name: str
    config: ShutdownConfig
    folder: Path  # of the state file and the pod cache
    owner: str = "auto"  # auto, kubelet or agent
    kubelet_is_configured: bool = False  # the kubelet's own configuration has a grace period
    well_known_conditions: bool = True
    own_pods: frozenset[str] = frozenset()  # uids of the pods that this agent itself runs in


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownDependencies:
    """What a shutdown manager works with."""

    listener: ShutdownListener
    runtime: PodRuntime
    kubelet: KubeletControl
    boot: Boot
    agent: Agent | None = None  # its claimant claims and finishes the events of shutdowns; None: there are no events


class ShutdownManager:
    """Handles the shutdowns of one node. `run` is its only entry point."""

    def __init__(
        self,
        client: Client,
        options: ShutdownOptions,
        dependencies: ShutdownDependencies,
        recorder: ShutdownEventRecorder,
    ) -> None:
        self.options = options
        self.state_file = StateFile(options.folder)
        self.cache = PodCache(options.folder, options.node_name)
        self._client = client
        self._clock = client.clock
        self._listener = dependencies.listener
        self._runtime = dependencies.runtime
        self._kubelet = dependencies.kubelet
        self._boot = dependencies.boot
        self._recorder = recorder
        self._status_writer = ShutdownStatusWriter(client, options.node_name, well_known=options.well_known_conditions)
        self._reach = ApiReachability(client.clock)
        agent = dependencies.agent
        self._driver = None if agent is None else ShutdownDriver(client, agent, dependencies.boot)
        self._reporter = ShutdownStatusReporter(client, self._status_writer, self._reach, self._driver)
        self._pod_writer = PodWriter(client)
        self._api_was_read = False

    async def run(self) -> None:
        """Run until cancelled. The next process resumes a shutdown in progress."""
        needed = self.options.config.budget_seconds + FLUSH_MARGIN_SECONDS
        async with tasks.TaskScope("shutdown", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self.cache.run(self._client), name="pods")
            async with self._listener.running(needed):
                problems = record_problems(self._listener, self._recorder, self.options.node_name, self._clock)
                scope.start(problems, name="problems")
                step = await self._first_step()
                while True:
                    step = await self._carry_out(step)

    async def _first_step(self) -> shutdown_recovery.Recovery:
        """Decide from the disk, else from the API, and from what the machine announces."""
        state = self.state_file.load()
        if state is not None:
            self._api_was_read = True  # the API has nothing to add
            return self._recovered(state.evidence(), None, None)
        event = condition = None
        try:
            async with self._clock.timeout(_EVIDENCE_SECONDS):
                event, condition = await self._read_evidence()
            self._api_was_read = True
        except API_ERRORS as error:
            _log.info("API server unreachable, shutdown state unknown", error=str(error) or "no answer")
        return self._recovered(None, event, condition)

    async def _read_evidence(self) -> tuple[ShutdownEvidence | None, ShutdownEvidence | None]:
        event = None if self._driver is None else await self._driver.evidence()
        return event, await self._status_writer.evidence()

    def _recovered(
        self, file: ShutdownEvidence | None, event: ShutdownEvidence | None, condition: ShutdownEvidence | None
    ) -> shutdown_recovery.Recovery:
        return shutdown_recovery.recover(
            shutdown_recovery.RecoveryFacts(
                boot_id=self._boot.boot_id,
                booted_at=self._boot.booted_at,
                now=self._clock.now(),
                budget_seconds=self.options.config.budget_seconds,
                preparing=self._listener.preparing,
                file=file,
                event=event,
                condition=condition,
            )
        )

    async def _carry_out(self, step: shutdown_recovery.Recovery) -> shutdown_recovery.Recovery:
        """Carry out one step to its end; returns the next one."""
        match step:
            case shutdown_recovery.NoShutdown():
                return await self._wait_for_shutdown()
            case shutdown_recovery.Begin():
                return await self._shut_down(await self._new_shutdown())
            case shutdown_recovery.Resume(started_at, complete):
                _log.info("shutdown resumed", since=str(started_at), complete=complete)
                return await self._shut_down(await self._resumed_shutdown(started_at, complete=complete))
            case shutdown_recovery.Cancelled():
                return await self._revert()
            case shutdown_recovery.Rebooted(started_at, complete):
                return await self._finish_after_reboot(started_at, complete=complete)
            case other:
                assert_never(other)

    async def _wait_for_shutdown(self) -> shutdown_recovery.Recovery:
        async with tasks.TaskScope("shutdown/waiting", on_exit=tasks.OnExit.CANCEL) as scope:
            announcement = scope.start(self._listener.next_announcement(), name="announcement")
            waiting: list[asyncio.Task[Any]] = [announcement]
            if not self._api_was_read:
                waiting.append(scope.start(self._read_api(), name="evidence"))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not announcement.done():
                return cast("shutdown_recovery.Recovery", waiting[-1].result())
            return shutdown_recovery.Begin() if announcement.result() else shutdown_recovery.NoShutdown()

    async def _read_api(self) -> shutdown_recovery.Recovery:
        """An API server that was unreachable at the start may have a shutdown that the disk has not."""
        event = condition = None

        async def read() -> None:
            nonlocal event, condition
            event, condition = await self._read_evidence()

        await self._reporter.until_done(read)
        self._api_was_read = True
        return self._recovered(None, event, condition)

    async def _new_shutdown(self) -> ShutdownProgress:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        before = self.state_file.load()  # of a shutdown that was not finished yet
        # The file comes first: from here on a crash does not lose the shutdown.
        progress = self._progress_of(
            ShutdownState(
                boot_id=self._boot.boot_id,
                start_time=now,
                start_monotonic=monotonic,
                owner="",
                periods=self.options.config.periods,
                kubelet_stopped=before is not None and before.kubelet_stopped,
                ended=() if before is None else self._unreported(before),
            )
        )
        progress.change(progress.state)
        _log.info("shutdown started", budget_seconds=self.options.config.budget_seconds)
        self._recorder.began(self.options.node_name, now)
        owner = await self._choose_owner()
        progress.change(msgspec.structs.replace(progress.state, owner=owner))
        return progress

    def _unreported(self, before: ShutdownState) -> tuple[EndedPod, ...]:
        """The pods of an earlier shutdown whose end is not in the API. All pods of an earlier boot have ended."""
        gone = before.unseen if before.boot_id != self._boot.boot_id else ()
        return (*before.ended, *gone)

    async def _resumed_shutdown(self, started_at: dt.datetime, *, complete: bool) -> ShutdownProgress:
        state = self.state_file.load()
        if state is not None and state.boot_id == self._boot.boot_id and state.owner:
            return self._progress_of(state)
        owner = await self._choose_owner()
        if state is not None and state.boot_id == self._boot.boot_id:
            made = msgspec.structs.replace(state, owner=owner)  # the process before was killed at its first step
        else:
            # The disk was lost: the time in the API is enough.
            since = max(0.0, (self._clock.now() - started_at).total_seconds())
            made = ShutdownState(
                boot_id=self._boot.boot_id,
                start_time=started_at,
                start_monotonic=self._clock.monotonic() - since,
                owner=owner,
                periods=self.options.config.periods,
                kubelet_stopped=True,  # perhaps; starting a kubelet that runs has no effect
                complete_time=self._clock.now() if complete else None,  # the node shows the end state already
            )
        progress = self._progress_of(made)
        progress.change(made)
        return progress

    def _progress_of(self, state: ShutdownState) -> ShutdownProgress:
        boot_id = self._boot.boot_id

        def elapsed(known: ShutdownState) -> float:
            return known.elapsed(boot_id=boot_id, now=self._clock.now(), monotonic=self._clock.monotonic())

        return ShutdownProgress(self.state_file, state, elapsed)

    def _results_of(self, progress: ShutdownProgress) -> PodResults:
        return PodResults(
            progress,
            self.cache,
            self._pod_writer,
            clock=self._clock,
            reachability=self._reach,
            boot=self._boot,
            on_ended=self._recorder.pod_ended,
        )

    def _terminator_of(self, progress: ShutdownProgress, results: PodResults) -> PodTerminator:
        return PodTerminator(
            progress,
            self._runtime,
            self.cache,
            self._pod_writer,
            results,
            clock=self._clock,
            reachability=self._reach,
            own_pods=self.options.own_pods,
        )

    async def _choose_owner(self) -> str:
        """The shutdown owner: the one process that terminates the pods."""
        if self.options.owner != "auto":
            return self.options.owner
        try:
            holds = await self._kubelet.ends_pods()
        except RuntimeFailed as error:
            _log.warning("kubelet's shutdown lock unknown", error=str(error))
            holds = False
        return "kubelet" if holds or self.options.kubelet_is_configured else "agent"

    async def _shut_down(self, progress: ShutdownProgress) -> shutdown_recovery.Recovery:
        """Terminate the pods and release the machine, unless the shutdown is cancelled before."""
        self._reporter.begin(progress)
        async with tasks.TaskScope("shutdown/active", on_exit=tasks.OnExit.CANCEL) as scope:
            termination = scope.start(self._terminate_and_release(progress), name="terminate")
            cancellation = scope.start(self._wait_cancelled(), name="cancellation")
            await asyncio.wait([termination, cancellation], return_when=asyncio.FIRST_COMPLETED)
            if not cancellation.done():
                termination.result()
                await cancellation  # the machine goes down now; only a cancellation continues from here
        return shutdown_recovery.Cancelled(progress.state.start_time)

    async def _wait_cancelled(self) -> None:
        while await self._listener.next_announcement():
            pass

    async def _wait_announced(self) -> None:
        while not await self._listener.next_announcement():
            pass

    async def _terminate_and_release(self, progress: ShutdownProgress) -> None:
        results = self._results_of(progress)
        terminator = self._terminator_of(progress, results)
        async with (
            tasks.TaskScope("shutdown/terminating", on_exit=tasks.OnExit.CANCEL) as scope,
            terminator.active(),
        ):
            publishing = scope.start(self._reporter.publish_started(progress), name="publish")
            requesting = scope.start(self._reporter.request_event(progress, publishing), name="request")
            if progress.state.complete_time is None:
                if progress.state.owner == "kubelet":
                    await kubelet_watch.watch(self._kubelet, progress, terminator, self._clock)
                if progress.state.owner == "agent":
                    await self._stop_kubelet(progress)
                    holding = scope.start(self._reporter.hold_not_ready(self.cache, self._pod_writer), name="node")
                    await terminator.end_all()
                    await tasks.cancel_and_wait(holding)
            try:
                async with self._clock.timeout(self._closing_seconds(progress)):
                    await self._close(progress, terminator, results, publishing, requesting)
            except TimeoutError:
                _log.warning(
                    "machine released before the API has everything",
                    pods=len(progress.state.ended),
                    unseen=len(progress.state.unseen),
                )
        await self._listener.release()

    def _closing_seconds(self, progress: ShutdownProgress) -> float:
        """How long the machine still waits, for everything after the last group."""
        budget = sum(period.seconds for period in progress.state.periods)
        left = budget + FLUSH_MARGIN_SECONDS - _RELEASE_SECONDS - progress.elapsed
        return max(_CLOSING_LEAST_SECONDS, min(_CLOSING_SECONDS, left))

    async def _close(
        self,
        progress: ShutdownProgress,
        terminator: PodTerminator,
        results: PodResults,
        publishing: asyncio.Task[None],
        requesting: asyncio.Task[None],
    ) -> None:
        """After the last group: observe how the pods ended, and write what the API does not show yet."""
        if progress.state.complete_time is None:
            closing = self._closing_seconds(progress)
            look_seconds = max(closing / 2, closing - _LAST_WRITES_SECONDS)
            if progress.state.owner == "kubelet":
                began = self._clock.monotonic()
                await self._wait_for_kubelet_statuses(look_seconds / 2)
                look_seconds -= self._clock.monotonic() - began
            await terminator.observe_remaining(look_seconds)
            progress.change(msgspec.structs.replace(progress.state, complete_time=self._clock.now()))
            self._recorder.completed(self.options.node_name, self._clock.now(), progress.state)
        async with tasks.TaskScope("shutdown/closing") as scope:
            scope.start(results.wait_reported(), name="pods")
            scope.start(terminator.wait_torn_down(), name="sandboxes")
            scope.start(self._reporter.publish_complete(progress, publishing, requesting), name="node")

    async def _wait_for_kubelet_statuses(self, seconds: float) -> None:
        """A kubelet that has terminated its pods may still write their last status; after that the agent does."""
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until and any(
            not pod.finished and uid not in self.options.own_pods for uid, pod in self.cache.current.items()
        ):
            await self._clock.sleep(_STATUS_POLL_SECONDS)

    async def _stop_kubelet(self, progress: ShutdownProgress) -> None:
        progress.change(msgspec.structs.replace(progress.state, kubelet_stopped=True))
        try:
            await self._kubelet.stop()
        except RuntimeFailed as error:
            _log.error("kubelet not stopped, it may restart pods", error=str(error))

    async def _revert(self) -> shutdown_recovery.Recovery:
        """The shutdown was cancelled: the node accepts pods again."""
        state = self.state_file.load()
        if state is not None and not state.cancelled:
            # A process that finds this file and a machine that shuts down knows that it is another shutdown.
            state = msgspec.structs.replace(state, cancelled=True)
            self._progress_of(state).change(state)
        _log.info("shutdown cancelled")
        self._recorder.cancelled(self.options.node_name)
        return await self._finish(state, "ShutdownCancelled", is_cancelled=True)

    async def _finish_after_reboot(self, started_at: dt.datetime, *, complete: bool) -> shutdown_recovery.Recovery:
        """The machine was down and is up again: clear stale conditions, and write what the API does not have yet."""
        state = self.state_file.load()
        self._recorder.rebooted(self.options.node_name, started_at, state, complete=complete)
        return await self._finish(state, "NodeStarted", is_cancelled=False)

    async def _finish(
        self, state: ShutdownState | None, reason: str, *, is_cancelled: bool
    ) -> shutdown_recovery.Recovery:
        """Update the API, for as long as that takes, and remove the file. A new shutdown comes first."""
        # Before anything that may take long: without an answer of the driver the claimant lets the event expire.
        self._reporter.conclude()
        async with tasks.TaskScope("shutdown/finishing", on_exit=tasks.OnExit.CANCEL) as scope:
            announcement = scope.start(self._wait_announced(), name="announcement")
            update = scope.start(self._update_api(state, reason, is_cancelled=is_cancelled), name="update")
            await asyncio.wait([update, announcement], return_when=asyncio.FIRST_COMPLETED)
            if update.done():
                self.state_file.clear()
                self._reporter.unregister()
            is_announced = announcement.done()
        return shutdown_recovery.Begin() if is_announced else shutdown_recovery.NoShutdown()

    async def _update_api(self, state: ShutdownState | None, reason: str, *, is_cancelled: bool) -> None:
        progress = None if state is None else self._progress_of(state)
        async with tasks.TaskScope("shutdown/updating") as scope:
            if is_cancelled:
                scope.start(self._restart_kubelet(progress), name="kubelet")
            if progress is not None and (progress.state.ended or progress.state.unseen):
                results = self._results_of(progress)
                async with results.reporting():
                    await results.resolve_unseen(self._runtime)
                    await results.wait_reported()
            await self._reporter.publish_ended(reason)

    async def _restart_kubelet(self, progress: ShutdownProgress | None) -> None:
        """After a cancellation: the kubelet runs, and holds a shutdown lock if it held one before."""
        kubelet, randomness = self._kubelet, self._client.randomness
        if progress is None or progress.state.kubelet_stopped:
            await kubelet_watch.start_until_running(kubelet, self._clock, randomness)
        elif progress.state.kubelet_held and await kubelet_watch.has_lost_lock(
            kubelet, progress, self._terminator_of(progress, self._results_of(progress)), self._clock
        ):
            _log.warning("kubelet holds no shutdown lock after a cancellation, restarting it")
            await self._stop_kubelet(progress)
            await kubelet_watch.start_until_running(kubelet, self._clock, randomness)
