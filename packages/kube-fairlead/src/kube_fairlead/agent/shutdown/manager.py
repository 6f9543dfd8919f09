"""The keeper of a node: hears that the machine goes down, sees its pods out, and lets it go.

    standing by --(going down)--> telling and ending pods --> flushed --> the machine is let go
                                        |  (called off)
                                        '--> everything is taken back, standing by again

What to make of what a starting keeper finds is decided by `lifecycle.shutdown_recovery`; the order and the times of
ending by `lifecycle.shutdown_plan`. Whatever is written on the way can be done again by the next process.

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
from kube_fairlead.agent.shutdown import kubelet_restart, kubelet_watch
from kube_fairlead.agent.shutdown.api_reachability import API_ERRORS, ApiReachability
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder, record_problems
from kube_fairlead.agent.shutdown.listener import ShutdownListener
from kube_fairlead.agent.shutdown.pod_cache import PodCache
from kube_fairlead.agent.shutdown.pod_results import PodResults
from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, PodRuntime, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_terminator import PodTerminator
from kube_fairlead.agent.shutdown.pod_writer import PodWriter
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.agent.shutdown.state_file import EndedPod, Machine, ShutdownState, StateFile
from kube_fairlead.agent.shutdown.status_reporter import ShutdownStatusReporter
from kube_fairlead.agent.shutdown.status_writer import ShutdownStatusWriter
from kube_fairlead.agent.shutdown_driver import ShutdownDriver
from kube_fairlead.base import logs, tasks
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle import shutdown_recovery
from kube_fairlead.lifecycle.shutdown_config import ShutdownConfig
from kube_fairlead.lifecycle.shutdown_recovery import Witness

__all__ = ["FLUSH_MARGIN_SECONDS", "ShutdownDependencies", "ShutdownManager", "ShutdownOptions"]

FLUSH_MARGIN_SECONDS: Final = 5.0
"""How much longer than its pods' time the machine is asked to wait.

A pod that uses up the last group's time is killed when that is over. Its end, its record on disk and its last status
follow: on a machine that is busy, each takes its moment.
"""

_EVIDENCE_SECONDS: Final = 3.0
_STATUS_POLL_SECONDS: Final = 0.05
# All that follows the last group together: never longer than the machine waits, and not for ever when it would.
_CLOSING_SECONDS: Final = 5.0
_CLOSING_LEAST_SECONDS: Final = 0.5
_RELEASE_SECONDS: Final = 0.25
# What the API needs after the last pod was seen to end, or given up; half of what is left where that is less.
_LAST_WRITES_SECONDS: Final = 1.5

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownOptions:
    """What an administrator chose."""

    node_name: str
    config: ShutdownConfig
    folder: Path  # where the memory is
    owner: str = "auto"  # auto, kubelet or agent
    kubelet_is_configured: bool = False  # its own configuration says that it ends pods
    well_known_conditions: bool = True
    own_pods: frozenset[str] = frozenset()  # uids of the pods that this agent itself runs in


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownDependencies:
    """What a keeper works with."""

    ear: ShutdownListener
    runtime: PodRuntime
    kubelet: KubeletControl
    machine: Machine
    agent: Agent | None = None  # whose claimant claims and finishes the events of shutdowns; None: there are none


class ShutdownManager:
    """Looks after one node's shutdowns. `run` is all there is to call."""

    def __init__(
        self, client: Client, options: ShutdownOptions, parts: ShutdownDependencies, teller: ShutdownEventRecorder
    ) -> None:
        self.options = options
        self.memory = StateFile(options.folder)
        self.cache = PodCache(options.folder, options.node_name)
        self._client = client
        self._clock = client.clock
        self._parts = parts
        self._teller = teller
        self._record = ShutdownStatusWriter(client, options.node_name, well_known=options.well_known_conditions)
        self._reach = ApiReachability(client.clock)
        self._driver = None if parts.agent is None else ShutdownDriver(client, parts.agent, parts.machine)
        self._report = ShutdownStatusReporter(client, self._record, self._reach, self._driver)
        self._writer = PodWriter(client)
        self._api_was_asked = False

    async def run(self) -> None:
        """Run until cancelled. A shutdown under way goes on with the next process."""
        needed = self.options.config.budget_seconds + FLUSH_MARGIN_SECONDS
        async with tasks.TaskScope("shutdown", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self.cache.run(self._client), name="pods")
            async with self._parts.ear.running(needed):
                told = record_problems(self._parts.ear, self._teller, self.options.node_name, self._clock)
                scope.start(told, name="problems")
                course = await self._find_out()
                while True:
                    course = await self._follow(course)

    async def _find_out(self) -> shutdown_recovery.Recovery:
        """What an agent that starts finds: on its disk, else in the API; and what the machine says."""
        state = self.memory.load()
        if state is not None:
            self._api_was_asked = True  # it could say no more
            return self._recovered(state.witness(), None, None)
        event = condition = None
        try:
            async with self._clock.timeout(_EVIDENCE_SECONDS):
                event, condition = await self._witnesses()
            self._api_was_asked = True
        except API_ERRORS as error:
            _log.info("the API cannot say whether the node is going down", error=str(error) or "no answer")
        return self._recovered(None, event, condition)

    async def _witnesses(self) -> tuple[Witness | None, Witness | None]:
        event = None if self._driver is None else await self._driver.witness()
        return event, await self._record.witness()

    def _recovered(
        self, file: Witness | None, event: Witness | None, condition: Witness | None
    ) -> shutdown_recovery.Recovery:
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

    async def _follow(self, course: shutdown_recovery.Recovery) -> shutdown_recovery.Recovery:
        """Go one course to its end; the course to follow then."""
        match course:
            case shutdown_recovery.NoShutdown():
                return await self._stand_by()
            case shutdown_recovery.Begin():
                return await self._go_down(await self._begun())
            case shutdown_recovery.Resume(started_at, complete):
                _log.info("a shutdown is under way, and goes on", since=str(started_at), complete=complete)
                return await self._go_down(await self._resumed(started_at, complete=complete))
            case shutdown_recovery.Cancelled():
                return await self._take_back()
            case shutdown_recovery.Rebooted(started_at, complete):
                return await self._come_back(started_at, complete=complete)
            case other:
                assert_never(other)

    async def _stand_by(self) -> shutdown_recovery.Recovery:
        async with tasks.TaskScope("shutdown/standing-by", on_exit=tasks.OnExit.CANCEL) as scope:
            word = scope.start(self._parts.ear.next_word(), name="word")
            waiting: list[asyncio.Task[Any]] = [word]
            if not self._api_was_asked:
                waiting.append(scope.start(self._ask_api(), name="evidence"))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not word.done():
                return cast("shutdown_recovery.Recovery", waiting[-1].result())
            return shutdown_recovery.Begin() if word.result() else shutdown_recovery.NoShutdown()

    async def _ask_api(self) -> shutdown_recovery.Recovery:
        """An API server that was out of reach at the start may know of a shutdown that the disk does not."""
        event = condition = None

        async def ask() -> None:
            nonlocal event, condition
            event, condition = await self._witnesses()

        await self._report.until_done(ask)
        self._api_was_asked = True
        return self._recovered(None, event, condition)

    async def _begun(self) -> ShutdownProgress:
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
                kubelet_stopped=before is not None and before.kubelet_stopped,
                ended=() if before is None else self._owed(before),
            )
        )
        course.change(course.state)
        _log.info("the machine is going down", budget_seconds=self.options.config.budget_seconds)
        self._teller.began(self.options.node_name, now)
        owner = await self._owner()
        course.change(msgspec.structs.replace(course.state, owner=owner))
        return course

    def _owed(self, before: ShutdownState) -> tuple[EndedPod, ...]:
        """What the API was not told of an earlier shutdown. Whatever ran in an earlier boot has ended."""
        gone = before.unseen if before.boot_id != self._parts.machine.boot_id else ()
        return (*before.ended, *gone)

    async def _resumed(self, started_at: dt.datetime, *, complete: bool) -> ShutdownProgress:
        state = self.memory.load()
        if state is not None and state.boot_id == self._parts.machine.boot_id and state.owner:
            return self._course(state)
        owner = await self._owner()
        if state is not None and state.boot_id == self._parts.machine.boot_id:
            made = msgspec.structs.replace(state, owner=owner)  # the process before died at its first step
        else:
            # The disk was lost: what others say is enough to count from.
            since = max(0.0, (self._clock.now() - started_at).total_seconds())
            made = ShutdownState(
                boot_id=self._parts.machine.boot_id,
                start_time=started_at,
                start_monotonic=self._clock.monotonic() - since,
                owner=owner,
                periods=self.options.config.periods,
                kubelet_stopped=True,  # perhaps; one that runs is not harmed by being started
                complete_time=self._clock.now() if complete else None,  # what the node has said is not said anew
            )
        course = self._course(made)
        course.change(made)
        return course

    def _course(self, state: ShutdownState) -> ShutdownProgress:
        boot_id = self._parts.machine.boot_id

        def elapsed(known: ShutdownState) -> float:
            return known.elapsed(boot_id=boot_id, now=self._clock.now(), monotonic=self._clock.monotonic())

        return ShutdownProgress(self.memory, state, elapsed)

    def _accounts(self, course: ShutdownProgress) -> PodResults:
        return PodResults(
            course,
            self.cache,
            self._writer,
            clock=self._clock,
            reach=self._reach,
            machine=self._parts.machine,
            on_ended=self._teller.pod_ended,
        )

    def _conductor(self, course: ShutdownProgress, accounts: PodResults) -> PodTerminator:
        return PodTerminator(
            course,
            self._parts.runtime,
            self.cache,
            self._writer,
            accounts,
            clock=self._clock,
            reach=self._reach,
            own_pods=self.options.own_pods,
        )

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

    async def _go_down(self, course: ShutdownProgress) -> shutdown_recovery.Recovery:
        """See everybody out, and let the machine go; unless the shutdown is called off before that."""
        self._report.begin(course)
        async with tasks.TaskScope("shutdown/course", on_exit=tasks.OnExit.CANCEL) as scope:
            leaving = scope.start(self._leave(course), name="leave")
            called_off = scope.start(self._wait_called_off(), name="called-off")
            await asyncio.wait([leaving, called_off], return_when=asyncio.FIRST_COMPLETED)
            if not called_off.done():
                leaving.result()
                await called_off  # the machine goes down now; only a cancellation makes us go on
        return shutdown_recovery.Cancelled(course.state.start_time)

    async def _wait_called_off(self) -> None:
        while await self._parts.ear.next_word():
            pass

    async def _wait_goes_down(self) -> None:
        while not await self._parts.ear.next_word():
            pass

    async def _leave(self, course: ShutdownProgress) -> None:
        accounts = self._accounts(course)
        conductor = self._conductor(course, accounts)
        async with (
            tasks.TaskScope("shutdown/leaving", on_exit=tasks.OnExit.CANCEL) as scope,
            conductor.at_work(),
        ):
            telling = scope.start(self._report.tell_began(course), name="tell")
            recording = scope.start(self._report.record_event(course, telling), name="record")
            if course.state.complete_time is None:
                if course.state.owner == "kubelet":
                    await kubelet_watch.watch(self._parts.kubelet, course, conductor, self._clock)
                if course.state.owner == "agent":
                    await self._stop_kubelet(course)
                    looking = scope.start(self._report.look_after(self.cache, self._writer), name="node")
                    await conductor.end_all()
                    await tasks.cancel_and_wait(looking)
            try:
                async with self._clock.timeout(self._closing_seconds(course)):
                    await self._close(course, conductor, accounts, telling, recording)
            except TimeoutError:
                _log.warning(
                    "the API does not know yet all there is to know of the shutdown",
                    pods=len(course.state.ended),
                    unseen=len(course.state.unseen),
                )
        await self._parts.ear.release()

    def _closing_seconds(self, course: ShutdownProgress) -> float:
        """How long the machine still waits, for everything that follows the last group."""
        budget = sum(period.seconds for period in course.state.periods)
        left = budget + FLUSH_MARGIN_SECONDS - _RELEASE_SECONDS - course.elapsed
        return max(_CLOSING_LEAST_SECONDS, min(_CLOSING_SECONDS, left))

    async def _close(
        self,
        course: ShutdownProgress,
        conductor: PodTerminator,
        accounts: PodResults,
        telling: asyncio.Task[None],
        recording: asyncio.Task[None],
    ) -> None:
        """All pods had their turn: see how they ended, note it, and update the API with what it does not show yet."""
        if course.state.complete_time is None:
            closing = self._closing_seconds(course)
            look_seconds = max(closing / 2, closing - _LAST_WRITES_SECONDS)
            if course.state.owner == "kubelet":
                began = self._clock.monotonic()
                await self._wait_kubelet_tells(look_seconds / 2)
                look_seconds -= self._clock.monotonic() - began
            await conductor.see_the_rest(look_seconds)
            course.change(msgspec.structs.replace(course.state, complete_time=self._clock.now()))
            self._teller.completed(self.options.node_name, self._clock.now(), course.state)
        async with tasks.TaskScope("shutdown/closing") as scope:
            scope.start(accounts.wait_told(), name="pods")
            scope.start(conductor.wait_torn_down(), name="sandboxes")
            scope.start(self._report.tell_complete(course, telling, recording), name="node")

    async def _wait_kubelet_tells(self, seconds: float) -> None:
        """A kubelet that has ended its pods may still owe the API their last status; then it is written for it."""
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until and any(
            not pod.finished and uid not in self.options.own_pods for uid, pod in self.cache.current.items()
        ):
            await self._clock.sleep(_STATUS_POLL_SECONDS)

    async def _stop_kubelet(self, course: ShutdownProgress) -> None:
        course.change(msgspec.structs.replace(course.state, kubelet_stopped=True))
        try:
            await self._parts.kubelet.stop()
        except RuntimeFailed as error:
            _log.error("the kubelet cannot be stopped, and may start again what is ended", error=str(error))

    async def _take_back(self) -> shutdown_recovery.Recovery:
        """The shutdown was called off: the node takes pods again."""
        state = self.memory.load()
        if state is not None and not state.called_off:
            # A process that finds this and a machine going down knows that it is another shutdown.
            state = msgspec.structs.replace(state, called_off=True)
            self._course(state).change(state)
        _log.info("the shutdown was called off")
        self._teller.called_off(self.options.node_name)
        return await self._wind_up(state, "ShutdownCancelled", called_off=True)

    async def _come_back(self, started_at: dt.datetime, *, complete: bool) -> shutdown_recovery.Recovery:
        """The machine was down and is up again: clear what is stale, tell what the API was not told then."""
        state = self.memory.load()
        self._teller.came_back(self.options.node_name, started_at, state, complete=complete)
        return await self._wind_up(state, "NodeStarted", called_off=False)

    async def _wind_up(self, state: ShutdownState | None, why: str, *, called_off: bool) -> shutdown_recovery.Recovery:
        """Bring the API up to date, for as long as that takes, and forget. A new shutdown comes first."""
        # Before anything that may take long: without an answer of the driver the claimant lets the event expire.
        self._report.conclude()
        async with tasks.TaskScope("shutdown/winding-up", on_exit=tasks.OnExit.CANCEL) as scope:
            goes_down = scope.start(self._wait_goes_down(), name="word")
            work = scope.start(self._clean(state, why, called_off=called_off), name="clean")
            await asyncio.wait([work, goes_down], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                self.memory.clear()
                self._report.rest()
            begins = goes_down.done()
        return shutdown_recovery.Begin() if begins else shutdown_recovery.NoShutdown()

    async def _clean(self, state: ShutdownState | None, why: str, *, called_off: bool) -> None:
        course = None if state is None else self._course(state)
        async with tasks.TaskScope("shutdown/cleaning") as scope:
            if called_off:
                scope.start(self._give_kubelet_back(course), name="kubelet")
            if course is not None and (course.state.ended or course.state.unseen):
                accounts = self._accounts(course)
                async with accounts.telling():
                    await accounts.settle(self._parts.runtime)
                    await accounts.wait_told()
            await self._report.tell_over(why)

    async def _give_kubelet_back(self, course: ShutdownProgress | None) -> None:
        """The kubelet runs again, and holds the machine up if it did before."""
        kubelet, randomness = self._parts.kubelet, self._client.randomness
        if course is None or course.state.kubelet_stopped:
            await kubelet_restart.start(kubelet, self._clock, randomness)
        elif course.state.kubelet_held and await kubelet_restart.has_lost_its_lock(
            kubelet, course, self._conductor(course, self._accounts(course)), self._clock
        ):
            _log.warning("the kubelet holds no lock after a shutdown that was called off, and is restarted")
            await self._stop_kubelet(course)
            await kubelet_restart.start(kubelet, self._clock, randomness)
