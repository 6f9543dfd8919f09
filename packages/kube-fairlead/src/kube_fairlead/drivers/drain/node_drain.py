"""The loop of one drain: read the node, plan, evict pods, report progress, wait for a change."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, PodOutcome
from kube_fairlead.base import logs, tasks
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.driverapi.messages import PodReport, Progress, Work
from kube_fairlead.drivers.drain import node_watch
from kube_fairlead.drivers.drain.drain_metrics import BlockedPods, DrainMetrics
from kube_fairlead.drivers.drain.evictor import Evictor
from kube_fairlead.drivers.drain.notices import Notices
from kube_fairlead.drivers.sdk.driver import Refused, Report
from kube_fairlead.lifecycle.drain import attempts, blockers, planner, pod_progress
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Cover
from kube_fairlead.lifecycle.drain.options import DrainOptions
from kube_fairlead.lifecycle.drain.planner import DrainPlan

__all__ = ["Drain"]

# The limit of requests in flight, so that the drain of one node does not delay other requests.
_PARALLEL: Final = 30
_LATE_SECONDS: Final = 0.005
# Changes come in bursts when pods terminate; planning once per burst costs a fraction of planning for each.
_BURST_SECONDS: Final = 0.02

_NO_COVER: Final = Cover(())
# A deadline counts as the reason of a cancellation that comes this early: clocks and timers differ slightly.
_LATE: Final = dt.timedelta(seconds=1)
_WITHDRAW_SECONDS: Final = 10.0

_log = logs.get_logger(__name__)


class Drain:
    """Empties one node for one event. `run` returns when it is empty, and raises `Refused` when it cannot be.

    Its state is in memory only: a restarted driver loses the last attempt of each pod, and since when it is blocked.
    """

    def __init__(
        self,
        client: Client,
        work: Work,
        options: DrainOptions,
        report: Report,
        recorder: EventRecorder | None = None,
        *,
        metrics: DrainMetrics,
        cleanup: tasks.TaskSet,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._work = work
        self._options = options
        self._report = report
        self._metrics = metrics
        self._notices = Notices(work, recorder, client.clock)
        self._cleanup = cleanup  # runs the cleanup of cancelled calls
        self._wake = asyncio.Event()
        self._watch = node_watch.NodeWatch(client, work.node_name, options, self._wake.set)
        self._daemonsets = node_watch.DaemonSets(client)
        self._evictor = Evictor(client, options)
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._attempts: dict[str, EvictionAttempt] = {}
        self._counted: dict[str, None] = {}  # the uids of the pods to evict: an ordered set
        self._done_before = 0  # by an earlier process
        self._pods: dict[str, PodOutcome] = {}  # the last reported outcome of each, by uid
        self._evictions: dict[str, int] = {}  # how often each was evicted, by uid
        self._reported: Progress | None = None
        self._since = client.clock.now()

    async def run(self) -> None:
        """Drain the node."""
        with self._metrics.drain() as blocked:
            await self._run(blocked)

    async def _run(self, blocked: BlockedPods) -> None:
        before = await self._resume()
        await self._evictor.discover()
        async with (
            self._watch.running(),
            self._withdrawing(),
            tasks.TaskScope("drain", on_exit=tasks.OnExit.CANCEL) as scope,
        ):
            first = True
            while True:
                self._wake.clear()
                plan = await self._make_plan()
                if first:
                    self._done_before = max(0, before - len(plan.remaining))
                    first = False
                for held in plan.hold:
                    self._hold(held)
                self._publish(plan, blocked)
                if plan.is_over:
                    break
                self._check_time(plan)
                for pod in plan.evict:
                    self._start_eviction(pod, scope)
                await self._wait(plan)
        if plan.stranded:
            raise Refused(blockers.failure(plan.stranded, self._attempts))

    @contextlib.asynccontextmanager
    async def _withdrawing(self) -> AsyncIterator[None]:
        """A drain that fails or is too late deletes its requests; one that is only interrupted does not."""
        try:
            yield
        except Refused:
            await self._withdraw()
            raise
        except asyncio.CancelledError:
            if self._work.deadline is not None and self._clock.now() >= self._work.deadline - _LATE:
                # The agent has the same deadline and may cancel too: that ends this wait, not the cleanup.
                await asyncio.wait([self._cleanup.start(self._withdraw(), name="withdraw")])
            raise

    async def _withdraw(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(_WITHDRAW_SECONDS):
                for pod in self._watch.pods:
                    if not pod.deleting:
                        await self._evictor.requests.withdraw(pod)

    async def _make_plan(self) -> DrainPlan:
        self._check_node()
        pods = self._watch.pods
        pod_deletes = await node_watch.delete_statuses(pods, self._options, self._daemonsets, self._client)
        present = {pod.uid for pod in pods}
        for uid in [uid for uid in self._attempts if uid not in present]:
            del self._attempts[uid]
        requested = {pod.uid for pod in pods if self._evictor.requests.applies_to(pod)}
        return planner.plan(
            pod_deletes, self._attempts, self._watch.budgets, self._options, self._clock.now(), requested=requested
        )

    def _check_node(self) -> None:
        node, name = self._watch.node, self._work.node_name
        if node is None:
            raise Refused(f"node {name} was deleted while it was drained")
        if self._work.node_uid and node.uid != self._work.node_uid:
            raise Refused(f"node {name} was replaced by another of the same name while it was drained")
        if not node.spec.unschedulable:
            # A second cordon would undo what the user did. Without a cordon, new pods would follow the evicted ones.
            raise Refused(f"node {name} was uncordoned during the drain, so the drain stopped")

    def _check_time(self, plan: DrainPlan) -> None:
        end = self._end
        if end is not None and self._clock.now() >= end:
            raise Refused(blockers.timed_out(self._options.timeout, self._describe(plan), plan.remaining))

    @property
    def _end(self) -> dt.datetime | None:
        return self._since + self._options.timeout if self._options.timeout else None

    def _hold(self, held: planner.HeldPod) -> None:
        now = self._clock.now()
        seconds = attempts.BUDGET_BACKOFF.delay(0, self._client.randomness)
        self._attempts[held.pod.uid] = EvictionAttempt(
            cause=Cause.BUDGET,
            since=now,
            number=0,
            message=blockers.budget_message(held.cover),
            retry_at=now + dt.timedelta(seconds=seconds),
            token=held.cover.token,
        )
        self._wake.set()  # the next wake-up has changed

    def _start_eviction(self, pod: Pod, scope: tasks.TaskScope) -> None:
        by_request = self._evictor.requests.applies_to(pod)
        ignores_budgets = self._options.disable_eviction or by_request
        cover = _NO_COVER if ignores_budgets else self._watch.budgets.covering(pod)
        previous = self._attempts.get(pod.uid)
        number = self._number(cover, previous)
        is_new = not by_request or previous is None  # reading a request again is not a new eviction
        if is_new:
            self._evictions[pod.uid] = self._evictions.get(pod.uid, 0) + 1
        since = previous.since if previous is not None else self._clock.now()
        before = previous.cause if previous is not None else None
        self._attempts[pod.uid] = EvictionAttempt(
            cause=Cause.SENT, since=since, number=number, token=cover.token, before=before
        )
        evict = functools.partial(self._evictor.evict, pod, cover, previous, number, by_request=by_request)
        scope.start(self._evict(pod, evict, is_new=is_new), name=f"evict/{pod.key}")

    def _number(self, cover: Cover, previous: EvictionAttempt | None) -> int:
        """Which attempt in a row this is. The pods of a budget that has not changed share one row."""
        own = previous.number if previous is not None else 0
        if previous is None or previous.cause is not Cause.BUDGET or previous.token != cover.token:
            return own + 1
        shared = (one.number for one in self._attempts.values() if one.token == cover.token)
        return max(shared, default=own) + 1

    async def _evict(self, pod: Pod, evict: Callable[[], Awaitable[EvictionAttempt]], *, is_new: bool) -> None:
        async with self._slots:
            attempt = await evict()
        self._attempts[pod.uid] = attempt
        if is_new or attempt.cause is not Cause.REQUESTED:
            self._metrics.answered(attempt.cause)
        if attempt.cause is Cause.ACCEPTED:
            _log.info("pod evicted", pod=pod.key, uid=pod.uid, event=self._work.event_name)
        elif attempt.cause is Cause.REQUESTED:
            _log.debug("eviction requested", pod=pod.key, uid=pod.uid, event=self._work.event_name)
        self._wake.set()

    def _describe(self, plan: DrainPlan) -> str:
        return blockers.describe(plan, self._attempts, self._watch.budgets, self._watch.node, self._clock.now())

    def _publish(self, plan: DrainPlan, blocked: BlockedPods) -> None:
        left = [*plan.remaining, *(one.pod for one in plan.stranded)]
        self._counted.update(dict.fromkeys(pod.uid for pod in left))
        total = self._done_before + len(self._counted)
        now, node, budgets = self._clock.now(), self._watch.node, self._watch.budgets
        blocked.set(blockers.blockers(plan, self._attempts, budgets, now))
        self._notices.publish(plan, self._attempts)
        self._pods = pod_progress.pod_outcomes(self._pods, plan, self._attempts, self._evictions, budgets, node, now)
        progress = Progress(
            done=total - len(left),
            total=total,
            unit="pods",
            message=self._describe(plan),
            pods=tuple(_report(pod) for pod in pod_progress.shown(self._pods.values())),
        )
        if progress != self._reported:
            self._reported = progress
            self._report(progress)

    async def _resume(self) -> int:
        """Read the progress that an earlier process reported; return its total number of pods."""
        try:
            event = await self._event()
        except (api_errors.ApiError, client_errors.ClientError) as error:
            _log.info("event not readable, progress starts at zero", error=str(error))
            return 0
        if event is None:
            return 0
        self._since = event.status.claim_time or self._since
        self._pods = {pod.uid: pod for pod in event.status.pods}
        self._evictions = {pod.uid: pod.attempts for pod in event.status.pods}
        return event.status.progress.total if event.status.progress is not None else 0

    async def _event(self) -> LifecycleEvent | None:
        """The event of this drain. Its uid decides in which of the served groups it is."""
        for client in await lifecyclegroup.candidates(self._client):
            # The rights of an installed driver are for one group.
            with contextlib.suppress(api_errors.NotFound, api_errors.Forbidden):
                event = await client.of(LifecycleEvent).get(self._work.event_name)
                if event.uid == self._work.event_uid:
                    return event
        return None

    async def _wait(self, plan: DrainPlan) -> None:
        moments = [moment for moment in (plan.recheck_at, self._end) if moment is not None]
        seconds = None
        if moments:
            seconds = max(0.0, (min(moments) - self._clock.now()).total_seconds()) + _LATE_SECONDS
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._wake.wait()
            if plan.remaining:
                await self._clock.sleep(_BURST_SECONDS)


def _report(pod: PodOutcome) -> PodReport:
    return PodReport(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        state=pod.state,
        attempts=pod.attempts,
        blocked_by=pod.blocked_by,
    )
