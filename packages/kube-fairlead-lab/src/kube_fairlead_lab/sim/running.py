"""One seed, from an empty cluster through bad weather to a calm end, and the verdict."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import gc
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.drivers.sdk import Driver
from kube_fairlead_apiserver.storage.interface import Row
from kube_fairlead_lab.sim.cast.agents import add_agent, add_part_time_agent
from kube_fairlead_lab.sim.cast.clouds import SimCloud
from kube_fairlead_lab.sim.cast.drivers import Central, DriverHost, Release, drainer, worker
from kube_fairlead_lab.sim.cast.kubelets import add_kubelet
from kube_fairlead_lab.sim.cast.machines import SimMachine
from kube_fairlead_lab.sim.cast.managers import add_cloud_manager, add_manager
from kube_fairlead_lab.sim.cast.operators import add_operator
from kube_fairlead_lab.sim.cast.server import add_server, fresh_disk
from kube_fairlead_lab.sim.cast.users import Users
from kube_fairlead_lab.sim.cast.workloads import Workloads
from kube_fairlead_lab.sim.checkers.acknowledged import Acknowledged
from kube_fairlead_lab.sim.checkers.arrival import Arrival
from kube_fairlead_lab.sim.checkers.budgets import Budgets
from kube_fairlead_lab.sim.checkers.dead_drivers import DeadDrivers
from kube_fairlead_lab.sim.checkers.deeds import Deeds
from kube_fairlead_lab.sim.checkers.evictions import Evictions
from kube_fairlead_lab.sim.checkers.failures import Failures
from kube_fairlead_lab.sim.checkers.finalizers import Finalizers
from kube_fairlead_lab.sim.checkers.graces import Graces
from kube_fairlead_lab.sim.checkers.history import History
from kube_fairlead_lab.sim.checkers.in_time import InTime
from kube_fairlead_lab.sim.checkers.leaders import Leaders
from kube_fairlead_lab.sim.checkers.liveness import Liveness
from kube_fairlead_lab.sim.checkers.maintenance import Maintenance
from kube_fairlead_lab.sim.checkers.offers import Offers
from kube_fairlead_lab.sim.checkers.one_claim import OneClaim
from kube_fairlead_lab.sim.checkers.own_claims import OwnClaims
from kube_fairlead_lab.sim.checkers.ownership import Ownership
from kube_fairlead_lab.sim.checkers.recorded import Recorded
from kube_fairlead_lab.sim.checkers.shutdowns import Shutdowns
from kube_fairlead_lab.sim.checkers.states import States
from kube_fairlead_lab.sim.checkers.vanished import Vanished
from kube_fairlead_lab.sim.commits import Commits
from kube_fairlead_lab.sim.loop import LoopStarved, SimLoop
from kube_fairlead_lab.sim.plan import Deed, plan
from kube_fairlead_lab.sim.scenario import Scenario
from kube_fairlead_lab.sim.stage import Life, Stage, Violation
from kube_fairlead_lab.sim.telling.chronicle import Chronicle
from kube_fairlead_lab.sim.telling.history import Entry, tell
from kube_fairlead_lab.sim.weather import Weather

__all__ = ["Outcome", "run"]

_ALONE_SECONDS = 60.0  # so long nobody brings back nodes that are gone: who is left has to come to terms with it
_ISLAND = "island"  # a node whose agent is hardly ever there: whoever claims from elsewhere does
_PLATFORMS = ("xcloud", "xcloud2")  # one is a prefix of the other: ownership must not confuse them


@dataclasses.dataclass(frozen=True, slots=True)
class _DriverJudges:
    """Who wants to know what drivers are asked and what they do."""

    finalizers: Finalizers
    deeds: Deeds
    dead_drivers: DeadDrivers
    offers: Offers


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How one seed ended."""

    seed: int
    digest: str
    violation: Violation | None
    virtual_seconds: float
    counts: collections.Counter[str]
    faults: collections.Counter[str]
    history: tuple[Entry, ...]  # of a failure, or where it was asked for

    @property
    def counts_as_run(self) -> bool:
        """Whether enough happened for a quiet end to mean something."""
        return self.counts["finished events"] >= 20 and self.faults.total() >= 10

    @classmethod
    def of_nothing(cls, seed: int) -> Outcome:
        """Of a seed whose process did not live to tell."""
        died = Violation("no crash", "the simulation itself ended before its end")
        return cls(seed, "", died, 0.0, collections.Counter(), collections.Counter(), ())


def run(
    seed: int,
    scenario: Scenario,
    deeds: Sequence[Deed] | None = None,
    *,
    is_told: bool = False,
    graveyard: list[object] | None = None,
) -> Outcome:
    """Play one seed. The same seed, scenario and deeds give the same outcome, digest included.

    Without `deeds` they are those that the seed stands for. A failure comes with its history, and what `is_told` does,
    too: in words that are made when all is over. Who gives a `graveyard` ends soon, and lets the dead and
    what they left lie there; otherwise it is taken apart, at the end and not before.
    """
    deeds = plan(seed, scenario) if deeds is None else deeds
    fresh_disk()
    is_cleared = graveyard is None
    graveyard = [] if graveyard is None else graveyard
    with _undisturbed(graveyard, is_cleared=is_cleared):
        loop = SimLoop(SeededRandomness(seed ^ 0x5EED))
        loop.set_exception_handler(lambda _loop, _context: None)  # tasks that died unheard are judged by what follows
        stage = Stage(loop, seed)
        graveyard += [loop, stage]
        try:
            loop.run_until_complete(loop.start(loop.world, _play(stage, scenario, deeds), name="play"))
        except LoopStarved as error:
            stage.violate(Violation("liveness", str(error)))
        finally:
            stage.kill_all()
            loop.close()
        outcome = _outcome(stage, is_told=is_told)
        del loop, stage
    return outcome


async def _play(stage: Stage, scenario: Scenario, deeds: Sequence[Deed]) -> None:
    playing = stage.loop.start(stage.loop.world, _story(stage, scenario, deeds), name="story")
    violated = stage.loop.start(stage.loop.world, stage.violated.wait(), name="violated")
    await asyncio.wait([playing, violated], return_when=asyncio.FIRST_COMPLETED)
    if playing.done() and (error := playing.exception()) is not None:
        if not isinstance(error, Violation):
            raise error
        stage.violate(error)
    for task in (playing, violated):
        task.cancel()


def _outcome(stage: Stage, *, is_told: bool) -> Outcome:
    return Outcome(
        seed=stage.seed,
        digest=stage.trace.digest,
        # Anew, without the frames it came through: they would keep the whole world alive.
        violation=None if stage.violation is None else Violation(stage.violation.rule, stage.violation.what),
        virtual_seconds=stage.loop.time(),
        counts=stage.counts,
        faults=stage.network.injected,
        history=tell(stage.trace.facts) if is_told or stage.violation is not None else (),
    )


async def _story(stage: Stage, scenario: Scenario, deeds: Sequence[Deed]) -> None:
    commits = Commits(stage.loop.time)
    chronicle = Chronicle(stage.trace, commits)
    _watch_disk(stage, commits)
    liveness = Liveness(stage, commits)
    OneClaim(commits)
    Arrival(commits)
    States(stage, commits)
    finalizers = Finalizers(stage, commits)
    deeds_done = Deeds(stage, commits)
    in_time = InTime(stage, commits)
    Evictions(stage, commits)
    Recorded(stage, commits)
    leaders = Leaders(stage, commits)
    Graces(stage, commits)
    shutdowns = Shutdowns(stage, commits)
    acknowledged = Acknowledged(stage, commits)
    Failures(stage)
    history = History(stage, commits)
    clouds = {platform: SimCloud(stage, platform) for platform in _PLATFORMS}
    offers = Offers(stage, commits)
    vanished = Vanished(stage, commits, clouds)
    judges_of_requests = (
        OwnClaims(stage, commits),
        Ownership(stage, commits),
        Budgets(stage, commits),
        vanished,
        offers,
    )
    stage.start(add_server(stage, acknowledged.opened, observers=(chronicle, *judges_of_requests)))
    nodes = {f"node-{number}": (*_PLATFORMS, "")[number % 3] for number in range(scenario.nodes)}
    machines = {name: SimMachine(stage, name, number, shutdowns) for number, name in enumerate(nodes)}
    for machine in machines.values():
        shutdowns.watch(machine)
    user = Life("user", 1, stage.loop.world, stage.clock, SeededRandomness(int(stage.chance.random() * 2**53)))
    client = stage.client(user)
    users = Users(stage, commits, client, clouds, {**nodes, _ISLAND: ""}, machines, Maintenance(stage, commits))
    workloads = Workloads(stage, commits, client, list(machines), user.randomness)
    await _until(lambda: stage.network.server() is not None, stage.clock)
    await users.set_up()
    await workloads.set_up()
    judges = _DriverJudges(finalizers, deeds_done, DeadDrivers(stage, commits), offers)
    release = Release()
    drivers = _populate_nodes(stage, commits, scenario, machines, judges, release)
    drivers += _populate_managers(stage, scenario, leaders, clouds, judges)
    stage.start(add_part_time_agent(stage, _ISLAND))
    stage.loop.start(stage.loop.world, leaders.audit(), name="audit of leaders")
    for what, checker in (("claims", in_time), ("drivers", judges.dead_drivers), ("transitions", offers)):
        stage.loop.start(stage.loop.world, checker.audit(), name=f"audit of {what}")
    stage.loop.start(stage.loop.world, workloads.run(), name="workloads")
    weather = Weather(stage, users, leaders, clouds, drivers, machines, release)
    await weather.rage(deeds, scenario.network, seconds=scenario.chaos_minutes * 60)
    weather.calm()
    calm_since = stage.clock.monotonic()
    end = calm_since + scenario.calm_minutes * 60
    while not (liveness.is_over and shutdowns.is_over and offers.is_over) and stage.clock.monotonic() < end:
        calm_seconds = stage.clock.monotonic() - calm_since
        if calm_seconds >= _ALONE_SECONDS:
            in_time.check_orphans()
            if not vanished.are_due(calm_seconds):
                await users.mend_nodes()
        await stage.clock.sleep(10.0)
    liveness.at_end()
    shutdowns.at_end()
    offers.at_end()
    history.at_end()


def _populate_nodes(
    stage: Stage,
    commits: Commits,
    scenario: Scenario,
    machines: dict[str, SimMachine],
    judges: _DriverJudges,
    release: Release,
) -> list[DriverHost]:
    drivers = []
    for node, machine in machines.items():
        hosts: dict[str, DriverHost] = {}
        for name, make in (("driver", worker(node, release)), ("drain", drainer(node))):
            host = hosts[name] = _add_driver(stage, f"agent-{node}", f"{name}-{node}", make, judges)
            drivers.append(host)
            judges.dead_drivers.watch(node, host)
            judges.offers.watch(host)
        stage.start(add_kubelet(stage, commits, machine))
        wait = scenario.driver_wait_seconds
        stage.start(add_agent(stage, node, hosts, driver_wait_seconds=wait, machine=machine))
        if len(drivers) == 2:
            # Somebody started a second agent for the first node by mistake, on a machine of its own.
            stage.start(add_agent(stage, node, hosts, driver_wait_seconds=wait, name=f"agent-{node}-twin"))
    return drivers


def _add_driver(
    stage: Stage,
    caller: str,
    name: str,
    make: Callable[[DriverHost, Life], Driver],
    judges: _DriverJudges,
) -> DriverHost:
    host = DriverHost(stage, stage.line(f"{caller} ~ {name}"), make, judges.finalizers.called, judges.deeds)
    stage.on_death.append(host.died)
    stage.start(stage.add(name, host.main))
    return host


def _populate_managers(
    stage: Stage, scenario: Scenario, leaders: Leaders, clouds: dict[str, SimCloud], judges: _DriverJudges
) -> list[DriverHost]:
    drivers = []
    for number in range(scenario.managers):
        name = f"manager-{number}"
        drivers.append(_add_driver(stage, name, f"driver-{name}", Central, judges))
        stage.start(add_manager(stage, number, leaders, drivers[-1]))
    for number in range(2):
        for cloud in clouds.values():
            stage.start(add_cloud_manager(stage, cloud, number, leaders))
        stage.start(add_operator(stage, number, leaders))
    return drivers


def _watch_disk(stage: Stage, commits: Commits) -> None:
    disk = stage.disk
    disk.copy_from(fresh_disk())
    for row in disk.load()[1]:
        commits.take(row)

    def committed(row: Row) -> None:
        stage.trace.seal(row.value or row.key.encode())
        # The server must not see what the judges think of it.
        try:
            commits.take(row)
        except Violation as violation:
            stage.violate(violation)

    disk.on_commit = committed


async def _until(condition: Callable[[], bool], clock: Clock) -> None:
    while not condition():
        await clock.sleep(0.01)


@contextlib.contextmanager
def _undisturbed(graveyard: list[object], *, is_cleared: bool) -> Iterator[None]:
    """Keep out what would differ between two runs of one seed, and clean up after the dead.

    Collection of garbage runs when the interpreter likes; the last lines of generators that nobody finished would then
    run at a moment of its choice. So nothing is collected meanwhile, and those last lines run, unheard, at the end.
    """
    start = threading.Thread.start
    was_enabled = gc.isenabled()
    was_silent = logging.root.manager.disable
    gc.disable()
    logging.disable(logging.CRITICAL)  # what components say of their bad day is the trace's to tell
    _set_aside_what_is_here()
    try:
        yield
    finally:
        if is_cleared:
            _clear(graveyard)
        threading.Thread.start = start  # type: ignore[method-assign]  # managers that were killed could not put it back
        logging.disable(was_silent)
        if was_enabled and is_cleared:
            gc.enable()


def _clear(graveyard: list[object]) -> None:
    hook, sys.unraisablehook = sys.unraisablehook, lambda _what: None
    with warnings.catch_warnings(action="ignore"):
        graveyard.clear()
        # Last lines that ran leave something behind in their turn.
        while gc.collect():
            pass
    sys.unraisablehook = hook


@functools.cache
def _set_aside_what_is_here() -> None:
    """The program itself is no garbage, and need not be looked through after every seed."""
    gc.collect()
    gc.freeze()
