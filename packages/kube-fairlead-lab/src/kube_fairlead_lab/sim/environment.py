"""The simulated environment: processes that start, crash and restart, and the record of what they did."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness, SeededRandomness
from kube_fairlead.client.client import Client
from kube_fairlead.election import TermOverrun
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_lab.sim.clock import SimClock
from kube_fairlead_lab.sim.disk import Disk
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.loop import Process, SimLoop
from kube_fairlead_lab.sim.network import Network, SimTransport
from kube_fairlead_lab.sim.trace import Trace

__all__ = ["Actor", "Environment", "ProcessRun", "Violation"]

_log = logs.get_logger(__name__)

_IDLE_SECONDS = 1.0  # an idle process is killed after this time, wherever it waits


class Violation(Exception):
    """A rule is violated. `rule` is the number of an invariant of the design, or the name of another rule."""

    def __init__(self, rule: str, what: str) -> None:
        self.rule = rule
        self.what = what
        super().__init__(rule, what)

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessRun:
    """One run of one process: its name and number, its clock, its randomness."""

    name: str
    number: int
    process: Process
    clock: Clock
    randomness: Randomness


Main = Callable[[ProcessRun], Coroutine[Any, Any, None]]


class Actor:
    """A process that is restarted when it has ended."""

    def __init__(
        self, name: str, main: Main, clock: SimClock, *, allowed: tuple[type[BaseException], ...] = ()
    ) -> None:
        self.name = name
        self.main = main
        self.clock = clock
        self.allowed = allowed
        self.lives = 0
        self.process: Process | None = None
        self.is_wanted = True
        self.disturbed_at = 0.0  # when it was last started or disturbed by a fault


class Environment:
    """All parts of one simulated cluster."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.processes: list[Process] = []  # also those that have ended: see `runner`
        self.trace = Trace(loop)
        self.chance = SeededRandomness(seed)
        self.network = Network(loop, SeededRandomness(seed + 1), self.trace)
        self.disk = Disk(SeededRandomness(seed + 2))
        self.clock = SimClock(loop)
        self.actors: dict[str, Actor] = {}
        self.links: dict[str, Link] = {}
        self.violation: Violation | None = None
        self.violated = asyncio.Event()
        self.counts: collections.Counter[str] = collections.Counter()
        self.on_death: list[Callable[[Process], None]] = []
        self.strangers: collections.Counter[str] = collections.Counter()

    # ---- processes

    def add(self, name: str, main: Main, *, allowed: tuple[type[BaseException], ...] = ()) -> Actor:
        """Add a process on its own machine, whose clock drifts a little. It is not started yet."""
        drift = self.chance.uniform(-0.001, 0.001)
        clock = SimClock(self.loop, rate=1.0 + drift, offset_seconds=self.chance.uniform(-0.9, 0.9))
        actor = self.actors[name] = Actor(name, main, clock, allowed=allowed)
        return actor

    def start(self, actor: Actor) -> None:
        """Start its next run."""
        actor.lives += 1
        process = Process(f"{actor.name}#{actor.lives}")
        actor.process = process
        self.processes.append(process)
        actor.disturbed_at = self.loop.time()
        chance = SeededRandomness(int(self.chance.random() * 2**53))
        process_run = ProcessRun(actor.name, actor.lives, process, actor.clock, chance)
        self.trace.add(actor.name, f"starts, run {actor.lives}")
        main = self.loop.start(process, actor.main(process_run), name=actor.name)
        main.add_done_callback(lambda task: self._ended(actor, process, task), context=self.loop.harness.context)

    def kill(self, actor: Actor, why: str = "killed") -> None:
        """Kill it as SIGKILL does. It is restarted a little later."""
        process = actor.process
        if process is None or not process.is_alive:
            return
        self.trace.add(actor.name, why)
        self.loop.kill(process)
        self._gone(actor, process)

    def crash(self, actor: Actor, steps: int) -> None:
        """Kill it after this number of steps, or soon if it is idle."""
        process = actor.process
        if process is None or not process.is_alive:
            return
        self.trace.add(actor.name, f"will be killed after {steps} steps, or soon")
        self.loop.call_after_steps(process, steps, lambda: self.kill(actor))
        self.loop.call_later(_IDLE_SECONDS, self._finish_off, actor, process, context=self.loop.harness.context)

    def _finish_off(self, actor: Actor, process: Process) -> None:
        if actor.process is process:
            self.kill(actor)

    def halt(self, actor: Actor) -> None:
        """Kill it and do not restart it until `revive`."""
        actor.is_wanted = False
        self.kill(actor, "is stopped")

    def revive(self, actor: Actor) -> None:
        """Start a process that was halted."""
        if not actor.is_wanted:
            actor.is_wanted = True
            self.start(actor)

    def kill_all(self) -> None:
        """Kill every process, at the end of the simulation."""
        for process in (*self.processes, self.loop.harness):
            self.loop.kill(process)

    def _ended(self, actor: Actor, process: Process, task: asyncio.Task[None]) -> None:
        if not process.is_alive:
            return
        error = None if task.cancelled() else task.exception()
        self.trace.add(actor.name, f"ends: {type(error).__name__ if error else 'by itself'}")
        self.loop.kill(process)
        if error is not None and not _is_allowed(error, actor.allowed):
            self.violate(Violation("no crash", f"{actor.name} ended with {error!r}"))
        self._gone(actor, process)

    def _gone(self, actor: Actor, process: Process) -> None:
        self.network.client_died(process)
        for listener in self.on_death:
            listener(process)
        if actor.is_wanted:
            delay = self.chance.uniform(0.1, 10.0)
            self.loop.call_later(delay, self._restart, actor, process, context=self.loop.harness.context)

    def _restart(self, actor: Actor, former: Process) -> None:
        if actor.process is former and actor.is_wanted:
            self.start(actor)

    def pause(self, actor: Actor, seconds: float) -> None:
        """Stop it as SIGSTOP does, and continue it later."""
        process = actor.process
        if process is None or not process.is_alive or process.is_paused:
            return
        self.trace.add(actor.name, f"is paused for {seconds:.1f} s")
        self.loop.pause(process)
        self.loop.call_later(seconds, self._resume, actor, process, context=self.loop.harness.context)

    def _resume(self, actor: Actor, process: Process) -> None:
        if process.is_alive:
            self.trace.add(actor.name, "continues")
            actor.disturbed_at = self.loop.time()
            self.loop.resume(process)

    def exit_on_overrun(self, name: str) -> Callable[[TermOverrun], None]:
        """Return the replacement of `os._exit` for a component."""

        def exit_now(overrun: TermOverrun) -> None:
            self.counts["term overruns"] += 1
            self.kill(self.actors[name], f"exits: {overrun}")
            raise overrun

        return exit_now

    def well_since(self, name: str) -> float | None:
        """Since when a process runs, reaches the server and has the right time; None if it does not."""
        actor, server = self.actors[name], self.actors["apiserver"]
        process, serving = actor.process, self.network.server()
        if process is None or not process.is_alive or process.is_paused or self.network.is_cut(name):
            return None
        if serving is None or self.disk.is_full or self.disk.slowness > 1.0 or not actor.clock.is_about_right:
            return None
        return max(actor.disturbed_at, server.disturbed_at, self.disk.well_since)

    # ---- what processes use

    def link(self, name: str) -> Link:
        """Return a new link between two actors."""
        link = self.links[name] = Link(name, self.loop.time)
        return link

    def client(self, process_run: ProcessRun, *, party: str = "") -> Client:
        """Return a client for the simulated API server."""
        user = UserInfo(name=process_run.name, groups=("system:masters", "system:authenticated"))
        transport = SimTransport(self.network, party or process_run.name, process_run.clock, user)
        return Client(transport, clock=process_run.clock, randomness=process_run.randomness)

    # ---- violations

    def violate(self, violation: Violation) -> None:
        """Record a violation. The first one decides the outcome."""
        if self.violation is None:
            self.violation = violation
            self.trace.add("checker", str(violation))
            self.violated.set()


def _is_allowed(error: BaseException, allowed: tuple[type[BaseException], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_allowed(one, allowed) for one in error.exceptions)
    return isinstance(error, allowed)
