"""The manager put together: what starts when, which locks it campaigns for, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.gates import (
    CONTROLLER_MANAGER_RELEASE_LEADER_ELECTION_LOCK_ON_EXIT,
    GRACEFUL_LEADER_TRANSITION,
    FeatureGates,
)
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.election import Rules, StopReason, TermOverrun, Timing, end_process
from kube_fairlead.manager import leaks, runnables, watchdog
from kube_fairlead.manager.controller_runner import Runner, RunSettings
from kube_fairlead.manager.discovery import GroupDiscovery
from kube_fairlead.manager.group import Group, GroupPlan
from kube_fairlead.manager.health import HealthChecks
from kube_fairlead.manager.health_server import HealthServer, ServingOptions
from kube_fairlead.manager.lock_balance import lock_to_request
from kube_fairlead.manager.unelected import run_unelected

__all__ = ["Manager", "ManagerOptions"]

# How often a replica looks whether locks are fairly spread, give or take half of it.
_BALANCE_SECONDS = 10.0

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """What a manager runs, and how.

    `groups` holds one lock for all controllers, or several. Without `leader_elect` everything runs at once.
    `check_writes` off leaves it to the API server's fence to stop an ex-leader. With a `discovery` it campaigns only
    once the group of the lifecycle kinds is known: a leader that cannot work would keep out one that can.
    """

    component: str
    identity: str
    groups: tuple[GroupPlan, ...]
    leader_elect: bool = True
    timing: Timing = dataclasses.field(default_factory=Timing)
    shutdown_timeout_seconds: float = 10.0
    serving: ServingOptions = dataclasses.field(default_factory=lambda: ServingOptions(port=None))
    gates: FeatureGates = dataclasses.field(default_factory=FeatureGates)
    runnables: tuple[runnables.Runnable, ...] = ()
    discovery: GroupDiscovery | None = None
    check_writes: bool = True
    watchdog: bool = True

    def rules(self) -> Rules:
        """How terms end, by the gates. Controllers are stopped on request, never cancelled, while the lease holds."""
        return Rules(
            shutdown_timeout_seconds=self.shutdown_timeout_seconds,
            drain_seconds=None,
            release=self.gates.enabled(CONTROLLER_MANAGER_RELEASE_LEADER_ELECTION_LOCK_ON_EXIT),
            stay=self.gates.enabled(GRACEFUL_LEADER_TRANSITION),
        )


class Manager:
    """Runs until cancelled; then stops in order."""

    def __init__(
        self,
        options: ManagerOptions,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        on_overrun: Callable[[TermOverrun], None] = end_process,
    ) -> None:
        self._options = options
        self._clock = clock
        self._randomness = randomness
        self._on_overrun = on_overrun
        self.live = HealthChecks()
        self.ready = HealthChecks()
        self.server = HealthServer(options.serving, live=self.live, ready=self.ready, metrics=metrics, clock=clock)
        self._settings = RunSettings(
            component=options.component,
            metrics=metrics,
            health=self.live,
            ready=self.ready,
            gates=options.gates,
            shutdown_timeout_seconds=options.shutdown_timeout_seconds,
            check_writes=options.check_writes,
        )
        self.groups: list[Group] = []

    @property
    def runnable_groups(self) -> Sequence[runnables.RunnableGroup]:
        """What starts before the election, in order."""
        return (("servers", (self.server,)), ("always", self._options.runnables))

    async def run(self) -> None:
        """Run everything. Cancelling it is the request to stop in order.

        Raises:
            LeadershipLost: a lease was lost and the gates say that the process ends with it.
            ControllersLeaked: a controller ended and left something running.
            Exception: whatever a controller failed with.
        """
        with leaks.keep_ledgers(asyncio.get_running_loop()):
            async with runnables.started_in_order(self.runnable_groups), self._discovered():
                if self._options.leader_elect:
                    await self._campaign()
                else:
                    await self._run_unelected()

    def step_down(self) -> list[str]:
        """Let others lead, and stay: which locks were held."""
        return [str(group.lock) for group in self.groups if group.leadership.step_down(StopReason.YIELD)]

    @contextlib.asynccontextmanager
    async def _discovered(self) -> AsyncIterator[None]:
        """A block in which the group of the lifecycle kinds is known; readiness shows it, or what it waits for."""
        discovery = self._options.discovery
        if discovery is None:
            yield
            return
        with self.ready.during(discovery.check_name, discovery.verdict):
            async with self._options.groups[0].connect() as client:
                await discovery.settle(client)
            yield

    async def _campaign(self) -> None:
        options = self._options
        self.groups = [
            Group(
                plan,
                self._settings,
                identity=options.identity,
                timing=options.timing,
                rules=options.rules(),
                on_overrun=self._on_overrun,
            )
            for plan in options.groups
        ]
        with contextlib.ExitStack() as stack:
            for group in self.groups:
                name = "leaderElection" if len(self.groups) == 1 else f"leaderElection-{group.lock.name}"
                stack.enter_context(self.live.during(name, group.health))
                stack.enter_context(self.ready.during(name, group.readiness))
            if options.watchdog:
                leaderships = [group.leadership for group in self.groups]
                stack.enter_context(watchdog.watched(leaderships, clock=self._clock, on_overrun=self._on_overrun))
            async with tasks.TaskScope("manager") as scope:
                for group in self.groups:
                    scope.start(group.run(), name=group.lock.name)
                if len(self.groups) > 1:
                    scope.start(self._balance(), name="balance")

    async def _balance(self) -> None:
        """Request a lock when another replica has two more than this one."""
        while True:
            await self._clock.sleep(_BALANCE_SECONDS * self._randomness.uniform(0.5, 1.5))
            records = {str(group.lock): group.record for group in self.groups}
            known = {lock: record for lock, record in records.items() if record is not None}
            if len(known) == len(records) and (wanted := lock_to_request(known, self._options.identity)):
                await next(group for group in self.groups if str(group.lock) == wanted).request_lease()

    async def _run_unelected(self) -> None:
        async with tasks.TaskScope("manager") as scope:
            for plan in self._options.groups:
                runner = Runner(plan.controllers, plan.connect, self._settings, clock=self._clock)
                running = run_unelected(
                    runner.work,
                    plan.lock,
                    identity=self._options.identity,
                    clock=self._clock,
                    shutdown_timeout_seconds=self._options.shutdown_timeout_seconds,
                    on_overrun=self._on_overrun,
                )
                scope.start(running, name=plan.lock.name)
