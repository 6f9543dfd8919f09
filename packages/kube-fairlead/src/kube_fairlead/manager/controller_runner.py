"""Controllers in a term: started together, stopped together, and checked for leaks."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.election import ElectionError, Term, guarded
from kube_fairlead.manager import leaks
from kube_fairlead.manager.controller import Context, Controller
from kube_fairlead.manager.health import OK, HealthChecks
from kube_fairlead.manager.resource_presence import Switch

__all__ = ["ControllersLeaked", "RunSettings", "Runner"]

_log = logs.get_logger(__name__)


class ControllersLeaked(ElectionError):
    """Controllers returned and left tasks or threads behind: these could act in a second control loop."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What all controllers of a process share.

    `check_writes`: writes are refused here once the lease cannot be relied on; off only where the API server's own
    fence is to be tested.
    """

    component: str
    metrics: Metrics
    health: HealthChecks
    ready: HealthChecks
    gates: FeatureGates
    shutdown_timeout_seconds: float = 10.0
    check_writes: bool = True


class Runner:
    """Runs the controllers of one lock for one term after another. Its `work` is what a Leadership is given."""

    def __init__(
        self,
        controllers: Sequence[Controller],
        connect: Callable[[], Client],
        settings: RunSettings,
        *,
        clock: Clock,
    ) -> None:
        self._controllers = [one for one in controllers if not one.gate or settings.gates.enabled(one.gate)]
        for off in sorted({one.name for one in controllers} - {one.name for one in self._controllers}):
            _log.warning("controller disabled by its feature gate", controller=off)
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._ready: Client | None = None
        metrics = settings.metrics
        self._running = metrics.gauge("fairlead_running_controllers", "Running controllers.", ["controller"])
        self._leaked = metrics.counter("fairlead_leaks_total", "Tasks, threads and files that terms leaked.", ["kind"])

    def prepare(self) -> None:
        """Create a client for the next term, without a connection: reading its configuration takes a while."""
        with contextlib.suppress(errors.ConfigError, OSError):  # the term raises it, if it persists
            self._ready = self._ready or self._connect()

    async def close(self) -> None:
        """Close the prepared client."""
        ready, self._ready = self._ready, None
        if ready is not None:
            await ready.close()

    async def work(self, term: Term) -> None:
        """Run all controllers until the term's end, gentle or not.

        Connections, caches and events are the term's own, and gone when this returns: a follower holds none of them.

        Raises:
            ControllersLeaked: something is still running that should not be, or was until it was stopped by force.
        """
        async with self._connections(term) as (client, recorder):
            with leaks.ledger(str(term.lock)) as whole:
                try:
                    await self._run_all(client, recorder, whole, term)
                finally:
                    await self._judge(await leaks.settled(whole.still_running, self._clock), whole, term)
                    # Nothing acts any more: the next leader need not wait until connections are closed.
                    term.tidy_up()
        for leak in await leaks.settled(whole.still_open, self._clock):
            self._report(leak, term)

    async def _run_all(self, client: Client, recorder: EventRecorder, whole: leaks.Ledger, term: Term) -> None:
        async with tasks.TaskScope(term.owner) as scope:
            for controller in self._controllers:
                context = self._context(controller, client, recorder, term)
                scope.start(self._run(controller, context, whole, term), name=controller.name)
        # Controllers may return by themselves; the term continues.
        await term.stopping.wait()

    @contextlib.asynccontextmanager
    async def _connections(self, term: Term) -> AsyncIterator[tuple[Client, EventRecorder]]:
        ready, self._ready = self._ready, None
        async with ready or self._connect() as connected:
            client = guarded(connected, term) if self._settings.check_writes else connected
            recorder = EventRecorder(client, controller=self._settings.component, instance=term.identity)
            async with recorder.running():
                yield client, recorder

    def _context(self, controller: Controller, client: Client, recorder: EventRecorder, term: Term) -> Context:
        return Context(
            name=controller.name,
            client=client,
            recorder=recorder,
            stopping=term.stopping,
            metrics=self._settings.metrics,
            gates=self._settings.gates,
            health=self._settings.health,
            ready=self._settings.ready,
            workers=controller.workers,
            lock=str(term.lock) if term.is_elected else "",
            check=term.check if self._settings.check_writes else _unchecked,
        )

    async def _run(self, controller: Controller, context: Context, whole: leaks.Ledger, term: Term) -> None:
        if controller.present is None:
            await self._run_once(controller, context, whole, term)
            return
        async with controller.present.watched(context.client) as switch:
            while await _becomes(switch, term.stopping, is_on=True):
                ended_by_itself = await self._run_while_present(controller, context, switch, whole, term)
                # It has done its work on what is there; what comes after that is new work.
                if ended_by_itself and not await _becomes(switch, term.stopping, is_on=False):
                    return

    async def _run_while_present(
        self, controller: Controller, context: Context, switch: Switch, whole: leaks.Ledger, term: Term
    ) -> bool:
        """One run, asked to stop when what it works on is gone, or with the term; True when it ended before that."""
        stopping = asyncio.Event()
        own = dataclasses.replace(context, stopping=stopping)
        async with tasks.TaskScope(f"{term.owner}/{controller.name}", on_exit=tasks.OnExit.CANCEL) as scope:
            run = scope.start(self._run_once(controller, own, whole, term), name="run")
            gone = scope.start(switch.wait(is_on=False), name="gone")
            ended = scope.start(_wait(term.stopping), name="term")
            await asyncio.wait([run, gone, ended], return_when=asyncio.FIRST_COMPLETED)
            stopping.set()
            ended_by_itself = not gone.done() and not ended.done()
            if gone.done():
                _log.info("controller stops: its resource is gone", controller=controller.name)
            await self._see_it_end(run, controller)
        return ended_by_itself

    async def _see_it_end(self, run: asyncio.Task[None], controller: Controller) -> None:
        seconds = self._settings.shutdown_timeout_seconds
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await asyncio.wait([run])
        if not run.done():
            _log.error("controller did not stop in time, cancelling", controller=controller.name, seconds=seconds)

    async def _run_once(self, controller: Controller, context: Context, whole: leaks.Ledger, term: Term) -> None:
        log = _log.bind(controller=controller.name, lock=str(term.lock), term=term.number)
        gauge = self._running.labels(controller=controller.name)
        with (
            self._settings.health.during(controller.name, lambda: OK),
            leaks.ledger(controller.name, whole=whole) as own,
            contextlib.ExitStack() as stack,
        ):
            log.info("controller started")
            gauge.inc()
            stack.callback(gauge.dec)
            await controller.run(context)
            log.info("controller stopped")
            await self._judge(await leaks.settled(own.still_running, self._clock), own, term)

    async def _judge(self, left: Sequence[leaks.Leak], ledger: leaks.Ledger, term: Term) -> None:
        """Nothing may be left that could still act. What is left is stopped, and the process ends."""
        if not left:
            return
        for leak in left:
            self._report(leak, term)
        term.stragglers = tuple(f"{ledger.name}: {leak.kind} {leak.name}" for leak in left)
        # As long as one of them runs, this does not return and the lease is not released.
        running = ledger.running_tasks()
        if running:
            await tasks.cancel_and_wait(*running)
        raise ControllersLeaked(f"{ledger.name} left behind: {', '.join(map(str, left))}")

    def _report(self, leak: leaks.Leak, term: Term) -> None:
        self._leaked.labels(kind=leak.kind).inc()
        _log.error("leaked", kind=leak.kind, name=leak.name, made_at=list(leak.made_at), lock=str(term.lock))


def _unchecked() -> None:
    """Only where the API server's own fence is to be tested."""


async def _becomes(switch: Switch, stopping: asyncio.Event, *, is_on: bool) -> bool:
    """Wait until the switch is so; False when asked to stop first."""
    async with tasks.TaskScope("presence", on_exit=tasks.OnExit.CANCEL) as scope:
        so = scope.start(switch.wait(is_on=is_on), name="so")
        stop = scope.start(_wait(stopping), name="stop")
        await asyncio.wait([so, stop], return_when=asyncio.FIRST_COMPLETED)
    return not stopping.is_set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
