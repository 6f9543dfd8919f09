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
from kube_fairlead_lab.sim.actors.agents import add_agent, add_part_time_agent
from kube_fairlead_lab.sim.actors.clouds import SimCloud
from kube_fairlead_lab.sim.actors.drivers import Central, DriverHost, Release, drainer, worker
from kube_fairlead_lab.sim.actors.kubelets import add_kubelet
from kube_fairlead_lab.sim.actors.machines import SimMachine
from kube_fairlead_lab.sim.actors.managers import add_cloud_manager, add_manager
from kube_fairlead_lab.sim.actors.operators import add_operator
from kube_fairlead_lab.sim.actors.server import add_server, fresh_disk
from kube_fairlead_lab.sim.actors.users import Users
from kube_fairlead_lab.sim.actors.workloads import Workloads
from kube_fairlead_lab.sim.checkers.acknowledged import Acknowledged
from kube_fairlead_lab.sim.checkers.arrival import Arrival
from kube_fairlead_lab.sim.checkers.budgets import Budgets
from kube_fairlead_lab.sim.checkers.dead_drivers import DeadDrivers
from kube_fairlead_lab.sim.checkers.driver_work import DriverWork
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
from kube_fairlead_lab.sim.environment import Environment, Life, Violation
from kube_fairlead_lab.sim.fault_injector import FaultInjector
from kube_fairlead_lab.sim.loop import LoopStarved, SimLoop
from kube_fairlead_lab.sim.plan import Deed, plan
from kube_fairlead_lab.sim.scenario import Scenario
from kube_fairlead_lab.sim.telling.chronicle import Chronicle
from kube_fairlead_lab.sim.telling.history import Entry, tell

__all__ = ["Outcome", "run"]

_ALONE_SECONDS = 60.0  # so long nobody brings back nodes that are gone: who is left has to come to terms with it
_ISLAND = "island"  # a node whose agent is hardly ever there: whoever claims from elsewhere does
_PLATFORMS = ("xcloud", "xcloud2")  # one is a prefix of the other: ownership must not confuse them


@dataclasses.dataclass(frozen=True, slots=True)
class _DriverJudges:
    """Who wants to know what drivers are asked and what they do."""

    finalizers: Finalizers
    driver_work: DriverWork
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
        environment = Environment(loop, seed)
        graveyard += [loop, environment]
        try:
            loop.run_until_complete(loop.start(loop.harness, _play(environment, scenario, deeds), name="play"))
        except LoopStarved as error:
            environment.violate(Violation("liveness", str(error)))
        finally:
            environment.kill_all()
            loop.close()
        outcome = _outcome(environment, is_told=is_told)
        del loop, environment
    return outcome


async def _play(environment: Environment, scenario: Scenario, deeds: Sequence[Deed]) -> None:
    playing = environment.loop.start(environment.loop.harness, _story(environment, scenario, deeds), name="story")
    violated = environment.loop.start(environment.loop.harness, environment.violated.wait(), name="violated")
    await asyncio.wait([playing, violated], return_when=asyncio.FIRST_COMPLETED)
    if playing.done() and (error := playing.exception()) is not None:
        if not isinstance(error, Violation):
            raise error
        environment.violate(error)
    for task in (playing, violated):
        task.cancel()


def _outcome(environment: Environment, *, is_told: bool) -> Outcome:
    return Outcome(
        seed=environment.seed,
        digest=environment.trace.digest,
        # Anew, without the frames it came through: they would keep the whole world alive.
        violation=None
        if environment.violation is None
        else Violation(environment.violation.rule, environment.violation.what),
        virtual_seconds=environment.loop.time(),
        counts=environment.counts,
        faults=environment.network.injected,
        history=tell(environment.trace.facts) if is_told or environment.violation is not None else (),
    )


async def _story(environment: Environment, scenario: Scenario, deeds: Sequence[Deed]) -> None:
    commits = Commits(environment.loop.time)
    chronicle = Chronicle(environment.trace, commits)
    _watch_disk(environment, commits)
    liveness = Liveness(environment, commits)
    OneClaim(commits)
    Arrival(commits)
    States(environment, commits)
    finalizers = Finalizers(environment, commits)
    driver_work = DriverWork(environment, commits)
    in_time = InTime(environment, commits)
    Evictions(environment, commits)
    Recorded(environment, commits)
    leaders = Leaders(environment, commits)
    Graces(environment, commits)
    shutdowns = Shutdowns(environment, commits)
    acknowledged = Acknowledged(environment, commits)
    Failures(environment)
    history = History(environment, commits)
    clouds = {platform: SimCloud(environment, platform) for platform in _PLATFORMS}
    offers = Offers(environment, commits)
    vanished = Vanished(environment, commits, clouds)
    judges_of_requests = (
        OwnClaims(environment, commits),
        Ownership(environment, commits),
        Budgets(environment, commits),
        vanished,
        offers,
    )
    environment.start(add_server(environment, acknowledged.opened, observers=(chronicle, *judges_of_requests)))
    nodes = {f"node-{number}": (*_PLATFORMS, "")[number % 3] for number in range(scenario.nodes)}
    machines = {name: SimMachine(environment, name, number, shutdowns) for number, name in enumerate(nodes)}
    for machine in machines.values():
        shutdowns.watch(machine)
    user = Life(
        "user",
        1,
        environment.loop.harness,
        environment.clock,
        SeededRandomness(int(environment.chance.random() * 2**53)),
    )
    client = environment.client(user)
    users = Users(
        environment, commits, client, clouds, {**nodes, _ISLAND: ""}, machines, Maintenance(environment, commits)
    )
    workloads = Workloads(environment, commits, client, list(machines), user.randomness)
    await _until(lambda: environment.network.server() is not None, environment.clock)
    await users.set_up()
    await workloads.set_up()
    judges = _DriverJudges(finalizers, driver_work, DeadDrivers(environment, commits), offers)
    release = Release()
    drivers = _populate_nodes(environment, commits, scenario, machines, judges, release)
    drivers += _populate_managers(environment, scenario, leaders, clouds, judges)
    environment.start(add_part_time_agent(environment, _ISLAND))
    environment.loop.start(environment.loop.harness, leaders.audit(), name="audit of leaders")
    for what, checker in (("claims", in_time), ("drivers", judges.dead_drivers), ("transitions", offers)):
        environment.loop.start(environment.loop.harness, checker.audit(), name=f"audit of {what}")
    environment.loop.start(environment.loop.harness, workloads.run(), name="workloads")
    injector = FaultInjector(environment, users, leaders, clouds, drivers, machines, release)
    await injector.carry_out(deeds, scenario.network, seconds=scenario.chaos_minutes * 60)
    injector.restore()
    calm_since = environment.clock.monotonic()
    end = calm_since + scenario.calm_minutes * 60
    while not (liveness.is_over and shutdowns.is_over and offers.is_over) and environment.clock.monotonic() < end:
        calm_seconds = environment.clock.monotonic() - calm_since
        if calm_seconds >= _ALONE_SECONDS:
            in_time.check_orphans()
            if not vanished.are_due(calm_seconds):
                await users.mend_nodes()
        await environment.clock.sleep(10.0)
    liveness.at_end()
    shutdowns.at_end()
    offers.at_end()
    history.at_end()


def _populate_nodes(
    environment: Environment,
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
            host = hosts[name] = _add_driver(environment, f"agent-{node}", f"{name}-{node}", make, judges)
            drivers.append(host)
            judges.dead_drivers.watch(node, host)
            judges.offers.watch(host)
        environment.start(add_kubelet(environment, commits, machine))
        wait = scenario.driver_wait_seconds
        environment.start(add_agent(environment, node, hosts, driver_wait_seconds=wait, machine=machine))
        if len(drivers) == 2:
            # Somebody started a second agent for the first node by mistake, on a machine of its own.
            environment.start(add_agent(environment, node, hosts, driver_wait_seconds=wait, name=f"agent-{node}-twin"))
    return drivers


def _add_driver(
    environment: Environment,
    caller: str,
    name: str,
    make: Callable[[DriverHost, Life], Driver],
    judges: _DriverJudges,
) -> DriverHost:
    host = DriverHost(
        environment, environment.link(f"{caller} ~ {name}"), make, judges.finalizers.called, judges.driver_work
    )
    environment.on_death.append(host.died)
    environment.start(environment.add(name, host.main))
    return host


def _populate_managers(
    environment: Environment, scenario: Scenario, leaders: Leaders, clouds: dict[str, SimCloud], judges: _DriverJudges
) -> list[DriverHost]:
    drivers = []
    for number in range(scenario.managers):
        name = f"manager-{number}"
        drivers.append(_add_driver(environment, name, f"driver-{name}", Central, judges))
        environment.start(add_manager(environment, number, leaders, drivers[-1]))
    for number in range(2):
        for cloud in clouds.values():
            environment.start(add_cloud_manager(environment, cloud, number, leaders))
        environment.start(add_operator(environment, number, leaders))
    return drivers


def _watch_disk(environment: Environment, commits: Commits) -> None:
    disk = environment.disk
    disk.copy_from(fresh_disk())
    for row in disk.load()[1]:
        commits.take(row)

    def committed(row: Row) -> None:
        environment.trace.seal(row.value or row.key.encode())
        # The server must not see what the judges think of it.
        try:
            commits.take(row)
        except Violation as violation:
            environment.violate(violation)

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
