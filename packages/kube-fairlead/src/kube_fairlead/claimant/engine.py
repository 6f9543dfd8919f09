"""The engine: it reads the node, decides the next step, carries it out, and reads again.

One loop per node, one step at a time; only driver calls run beside it. Between steps it keeps only what the server and
the drivers answered. So the loop of a new process continues where the last one was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition, RecordEntry
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff, Delays
from kube_fairlead.claimant import driver_progress
from kube_fairlead.claimant.driver_calls import DriverCalls
from kube_fairlead.claimant.driver_directory import DriverDirectory
from kube_fairlead.claimant.driver_probe import DriverProbe
from kube_fairlead.claimant.event_recorder import ClaimEventRecorder
from kube_fairlead.claimant.event_writer import EventWriter
from kube_fairlead.claimant.view import NodeView
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.election import NotLeading
from kube_fairlead.lifecycle import autoscaler_annotations, claims, decisions, invariants, phases, records, steps
from kube_fairlead.lifecycle.facts import Calling, Facts, Precedence, Settings

__all__ = ["Engine"]

_RETRY: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=5.0, jitter=0.3)
# Progress is for people, who do not read it more often.
_PROGRESS_SECONDS: Final = 1.0
# A clock that is read a moment early would find nothing to do and wait for nothing.
_LATE_SECONDS: Final = 0.005
# An event has about a dozen steps; more at a time are a loop.
_STEPS_MAX: Final = 40
# How long drivers have to register after the start of this process, and one driver to register again.
_RETURN: Final = dt.timedelta(seconds=30)
# A deadline is a time of day, and clocks are set: it is checked at least this often.
_LOOK_SECONDS: Final = 10.0

_log = logs.get_logger(__name__)


class Engine:
    """Carries out the events of one node, for as long as `run` runs. Make a new one for every term of the Lease."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        directory: DriverDirectory,
        reporter: ClaimEventRecorder,
        transitions: Informer[LifecycleTransition],
        *,
        claimant: str = "",
        settings: Settings | None = None,
        step_down: Callable[[], object] = lambda: None,
    ) -> None:
        self._step_down = step_down  # ends the term, so that another claimant can take the Lease
        self.claimant = claimant or claims.node_claimant(node_name)
        self._clock = client.clock
        self._randomness = client.randomness
        self._directory = directory
        self._reporter = reporter
        self._settings = settings or Settings()
        self._wake = asyncio.Event()
        self._is_changed = asyncio.Event()
        self._view = NodeView(client, node_name, self._view_changed, transitions)
        self._writer = EventWriter(client, self._view, self.claimant)
        self._calls = DriverCalls(
            directory,
            DriverProbe(directory, node_name=node_name, clock=client.clock, randomness=client.randomness),
            claimant=self.claimant,
            clock=client.clock,
            randomness=client.randomness,
            on_change=self._wake.set,
            driver_lost=self._settings.driver_lost,
        )
        self._delays = _RETRY.delays(client.randomness)
        self._uncertain: dict[str, LifecycleEvent] = {}  # events whose stored state is not known, by uid
        self._excluded: set[str] = set()  # events with a broken invariant, by uid
        self._refused: dict[str, _Refusal] = {}  # events whose last write the server rejected, by uid
        self._present: frozenset[str] = frozenset()  # the drivers that were registered at the last change
        # Until when drivers may still register. By the monotonic clock, because the time of day may be set.
        self._return_seconds = min(_RETURN, self._settings.driver_wait).total_seconds()
        self._returning: dict[str, float] = {}
        self._drivers_known_at = client.clock.monotonic() + self._return_seconds
        self._progress_due: dict[str, float] = {}
        self._recorded: set[str] = set()  # finished events that are in the node's record, by uid
        self._precedence: Precedence | None = None
        self.last_error: Exception | None = None

    def give_precedence(self, precedence: Precedence | None) -> None:
        """From now on only the events of one driver are carried out; None: all are."""
        self._precedence = precedence
        self._wake.set()

    @property
    def node_is_missing(self) -> bool:
        """Whether there is no such node."""
        return self._view.node_is_missing

    async def run(self) -> None:
        """Carry out events until cancelled. That cancels driver calls in progress too."""
        forget = self._directory.on_change(self._drivers_changed)
        self._drivers_changed()
        try:
            async with self._view.running(), tasks.TaskScope("engine", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._watch_calls(), name="calls")
                while True:
                    self._wake.clear()
                    await self._wait(await self._pass())
        finally:
            forget()
            await self._calls.close()

    def _view_changed(self) -> None:
        self._is_changed.set()
        self._wake.set()

    async def _watch_calls(self) -> None:
        """End the call of an event that another client finishes, also while a request of the engine has no answer."""
        while True:
            await self._is_changed.wait()
            self._is_changed.clear()
            await self._end_finished_calls()

    async def _pass(self) -> dt.datetime | None:
        """Take every step that is possible now; returns the time of the next, if it is known."""
        try:
            moment = await self._advance_all()
        except NotLeading:
            raise
        except (client_errors.ClientError, api_errors.ApiError, TimeoutError) as error:
            self.last_error = error
            delay = next(self._delays)
            _log.warning("step failed, retrying", error=str(error) or "timed out", in_seconds=delay)
            return self._clock.now() + dt.timedelta(seconds=delay)
        if self._precedence is None and claims.blocks_other_claimant(self._view.events, self.claimant):
            _log.info("stepping down: another claimant needs the lease for its claim")
            self._step_down()
        if not self._refused:
            self.last_error = None
        self._delays.reset()
        return moment

    def _drivers_changed(self) -> None:
        present = frozenset(self._directory.drivers())
        for driver in self._present - present:
            self._returning[driver] = self._clock.monotonic() + self._return_seconds
        self._present = present
        self._wake.set()

    async def _advance_all(self) -> dt.datetime | None:
        await self._end_finished_calls()
        for event in list(self._uncertain.values()):
            await self._reread(event)
        moments: list[dt.datetime] = []
        for event in self._view.events:
            moment = await self._advance_alone(event)
            if moment is not None:
                moments.append(moment)
        self._forget_deleted()
        await self._release_autoscalers()
        return min(moments, default=None)

    async def _advance_alone(self, event: LifecycleEvent) -> dt.datetime | None:
        """An event whose step the server rejects waits alone: the others of the node continue."""
        refusal = self._refused.get(event.uid)
        left = 0.0 if refusal is None else refusal.until - self._clock.monotonic()
        if left > 0:
            return self._clock.now() + dt.timedelta(seconds=left)
        try:
            moment = await self._advance(event.uid)
        except api_errors.ApiError as error:
            self.last_error = error
            delays = _RETRY.delays(self._randomness) if refusal is None else refusal.delays
            seconds = next(delays)
            self._refused[event.uid] = _Refusal(self._clock.monotonic() + seconds, delays, error)
            _log.warning("step rejected, retrying", event=event.name, error=str(error), in_seconds=seconds)
            return self._clock.now() + dt.timedelta(seconds=seconds)
        self._refused.pop(event.uid, None)
        return moment

    async def _advance(self, uid: str) -> dt.datetime | None:
        """Take the steps of one event until it has to wait."""
        refusal = self._refused.get(uid)
        is_contested = refusal is not None and isinstance(refusal.error, api_errors.Conflict)
        for _ in range(_STEPS_MAX):
            await self._end_finished_calls()
            event = self._event(uid)
            if event is None or uid in self._excluded:
                return None
            decision = decisions.decide(event, self._facts(), self._clock.now())
            if isinstance(decision, steps.Finish) and event.claim_status is ClaimStatus.PENDING:
                decision = await self._confirmed(event)
            if isinstance(decision, steps.WaitUntil | steps.Nothing):
                moment = decision.moment if isinstance(decision, steps.WaitUntil) else None
                due = self._progress_due_at(event)
                if due is None or due > self._clock.now():
                    return min((one for one in (moment, due) if one is not None), default=None)
                step, work = "Progress", self._write_progress(event)
            else:
                step, work = type(decision).__name__, self._carry_out(event, decision)
            try:
                await self._act(event, step, work)
            except api_errors.Conflict:
                # Another client wrote. Read the event and decide again, but only once in a row.
                self._uncertain[uid] = event
                await self._reread(event)
                if is_contested:
                    raise
                is_contested = True
            else:
                is_contested = False
        _log.error("event takes too many steps", event_uid=uid)
        return self._clock.now() + dt.timedelta(seconds=_RETRY.cap_seconds)

    async def _reread(self, event: LifecycleEvent) -> None:
        await self._writer.refresh(event)
        self._uncertain.pop(event.uid, None)

    async def _end_finished_calls(self) -> None:
        """A client that finishes or removes a claimed event cancels it: its driver stops before any other step."""
        claimed = {
            event.uid
            for event in self._view.events
            if event.claim_status is ClaimStatus.CLAIMED and event.status.claimed_by == self.claimant
        }
        for uid in [uid for uid in self._calls.runs if uid not in claimed]:
            await self._calls.cancel(uid)
            self._wake.set()

    async def _confirmed(self, event: LifecycleEvent) -> steps.Decision:
        """Decide again from a fresh read: a delayed watch is no reason to fail an event."""
        transition = await self._writer.read_transition(event.spec.transition_name)
        node = await self._writer.read_node()
        await self._writer.refresh(event)
        current = self._event(event.uid)
        if current is None or current.claim_status is not ClaimStatus.PENDING:
            return steps.Nothing("it has changed since")
        facts = self._facts()
        others = {name: one for name, one in facts.transitions.items() if name != event.spec.transition_name}
        known = others if transition is None else {**others, transition.name: transition}
        return decisions.decide(current, dataclasses.replace(facts, transitions=known, node=node), self._clock.now())

    async def _act(self, event: LifecycleEvent, step: str, work: Awaitable[None]) -> None:
        _log.debug("step", event=event.name, step=step)
        try:
            await work
        except api_errors.Conflict:
            raise
        except (client_errors.ClientError, api_errors.ApiError, TimeoutError):
            self._reporter.failed_step(step)
            self._uncertain[event.uid] = event
            raise
        except invariants.InvariantBroken as broken:
            # A defect of Fairlead, or a forbidden write of another client. Other events of the node continue.
            _log.error("event excluded", event=event.name, error=str(broken))
            self._reporter.failed_step("InvariantBroken")
            self._excluded.add(event.uid)

    async def _carry_out(self, event: LifecycleEvent, decision: steps.Decision) -> None:
        match decision:
            case steps.MarkSeen(status, for_its_turn):
                await self._writer.write_status(event, status)
                self._reporter.waiting(event, self._view.node, status.message, for_its_turn=for_its_turn)
            case steps.AskDriver(offer):
                self._calls.ask(offer)
            case steps.Claim(status):
                await self._writer.write_status(event, status)
                self._report_claim(event.uid)
            case steps.AddFinalizer():
                await self._writer.add_finalizer(event)
            case steps.AnnotateNode(changes):
                await self._writer.annotate(self._node(), changes)
            case steps.StartDriver():
                self._calls.call(event, "start", deadline=self._facts().deadline_for_driver(event))
            case steps.Publish(wanted):
                await self._writer.publish(event, self._node(), wanted)
            case steps.RecordStart(status):
                await self._writer.write_status(event, status)
                self._reporter.started(event, self._view.node)
            case steps.NoteDriver(status):
                await self._writer.write_status(event, status)
                self._reporter.driver_reachability(event, self._view.node, status)
            case steps.EndDriver():
                self._calls.call(event, "end", deadline=self._facts().deadline_for_driver(event))
            case steps.Finish(status):
                await self._finish(event, decision)
                _log.info("finished", event=event.name, status=status.claim_status, message=status.message)
            case steps.WriteRecord(entry):
                await self._record(event, entry)
            case steps.RemoveFinalizer():
                await self._writer.remove_finalizer(event)
            case steps.Delete():
                await self._writer.delete(event)
            case steps.WaitUntil() | steps.Nothing():
                pass
            case other:
                assert_never(other)

    async def _finish(self, event: LifecycleEvent, decision: steps.Finish) -> None:
        # The driver stops before a client can read that it has. Its answer is kept until the status is stored.
        outcome = self._calls.runs.get(event.uid)
        if isinstance(outcome, Calling):
            await self._calls.cancel(event.uid)
        await self._writer.write_status(event, decision.status)
        self._calls.forget(event.uid)
        finished = self._event(event.uid)
        if finished is not None and finished.finished:
            self._reporter.finished(finished, self._view.node, self._clock.now())
            if FINALIZER_CLAIMED not in finished.metadata.finalizers:
                # An event that was never claimed has no finalizer: a user may delete it at any moment.
                await self._record(finished, records.entry_of(finished))

    async def _record(self, event: LifecycleEvent, entry: RecordEntry) -> None:
        try:
            await self._writer.write_record(event, entry)
        except api_errors.ApiError as error:
            urgent = self._precedence is not None
            if not records.may_release_without_record(event, error.code, self._clock.now(), urgent=urgent):
                raise
            _log.error("event released without a record", event=event.name, error=str(error))
            self._reporter.unrecorded(event, self._view.node, str(error))
        self._recorded.add(event.uid)

    def _progress_due_at(self, event: LifecycleEvent) -> dt.datetime | None:
        """When to store the progress that a driver reported, not too often; None: it reported nothing new."""
        if event.uid not in self._calls.progress or event.claim_status is not ClaimStatus.CLAIMED:
            return None
        left = self._progress_due.get(event.uid, 0.0) - self._clock.monotonic()
        return self._clock.now() + dt.timedelta(seconds=max(0.0, left))

    async def _write_progress(self, event: LifecycleEvent) -> None:
        reported = self._calls.progress[event.uid]
        self._progress_due[event.uid] = self._clock.monotonic() + _PROGRESS_SECONDS
        status = wire.replace(
            event.status,
            progress=driver_progress.progress_of(reported),
            message=phases.shortened(reported.message),
            pods=driver_progress.pods_of(reported) or event.status.pods,
        )
        if status != event.status:
            await self._writer.write_status(event, status)
        # Only after it is stored: a driver reports each progress once. It may have reported another since.
        if self._calls.progress.get(event.uid) is reported:
            del self._calls.progress[event.uid]

    async def _release_autoscalers(self) -> None:
        """Remove the annotations of an agent that was killed before it removed them."""
        node = self._view.node
        if node is None or any(
            event.status.claimed_by == self.claimant and not event.finished for event in self._view.events
        ):
            return
        if changes := autoscaler_annotations.release(node.metadata.annotations):
            await self._writer.annotate(node, changes)

    def _report_claim(self, uid: str) -> None:
        claimed = self._event(uid)
        if claimed is not None:
            _log.info("claimed", event=claimed.name, driver=claimed.status.driver)
            self._reporter.claimed(claimed, self._view.node, self._clock.now())

    def _forget_deleted(self) -> None:
        present = {event.uid for event in self._view.events}
        for known in (self._progress_due, self._refused):
            for uid in [uid for uid in known if uid not in present]:
                del known[uid]
        self._excluded &= present
        self._recorded &= present

    def _facts(self) -> Facts:
        now, monotonic = self._clock.now(), self._clock.monotonic()

        def time_of_day(moment: float) -> dt.datetime:
            return now + dt.timedelta(seconds=moment - monotonic)

        return Facts(
            claimant=self.claimant,
            holds_lease=True,  # the engine runs during a term only, and its client rejects later writes
            node=self._view.node,
            events=tuple(self._view.events),
            transitions=self._view.transitions,
            drivers=self._directory.drivers(),
            unreachable=self._directory.unreachable(),
            unasked=self._calls.unasked(),
            asked=frozenset(self._calls.asked),
            drivers_known_at=time_of_day(self._drivers_known_at),
            returning={driver: time_of_day(moment) for driver, moment in self._returning.items()},
            runs=self._calls.runs,
            progress={uid: driver_progress.progress_of(reported) for uid, reported in self._calls.progress.items()},
            pods={
                uid: driver_progress.pods_of(reported)
                for uid, reported in self._calls.progress.items()
                if reported.pods
            },
            recorded=frozenset(self._recorded),
            refused=frozenset(uid for uid, refusal in self._refused.items() if refusal.is_final),
            settings=self._settings,
            precedence=self._precedence,
            traits=self._directory.traits,
        )

    def _event(self, uid: str) -> LifecycleEvent | None:
        return next((event for event in self._view.events if event.uid == uid), None)

    def _node(self) -> Node:
        node = self._view.node
        if node is None:
            raise LookupError(f"there is no node {self._view.node_name}")
        return node

    async def _wait(self, moment: dt.datetime | None) -> None:
        """Wait for a change, or until that moment."""
        seconds = None
        if moment is not None:
            left = (moment - self._clock.now()).total_seconds() + _LATE_SECONDS
            seconds = min(max(0.0, left), _LOOK_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._wake.wait()


@dataclasses.dataclass(frozen=True, slots=True)
class _Refusal:
    """When to retry, on the monotonic clock, the delays after that, and the error."""

    until: float
    delays: Delays
    error: api_errors.ApiError

    @property
    def is_final(self) -> bool:
        """Whether the server rejects it for good, so that later events of the node need not wait for it."""
        return 400 <= self.error.code < 500 and not isinstance(
            self.error, api_errors.Conflict | api_errors.TooManyRequests
        )
