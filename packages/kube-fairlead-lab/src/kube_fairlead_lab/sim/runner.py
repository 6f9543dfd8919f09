"""Plays one seed: creates a cluster, injects faults, waits until everything is finished, and checks the result."""

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
from kube_fairlead_lab.sim.action_plan import Action, plan
from kube_fairlead_lab.sim.actors.agents import add_agent, add_part_time_agent
from kube_fairlead_lab.sim.actors.clouds import SimCloud
from kube_fairlead_lab.sim.actors.drivers import ControllerManagerDriver, DriverHost, DriverRelease, drainer, worker
from kube_fairlead_lab.sim.actors.kubelets import add_kubelet
from kube_fairlead_lab.sim.actors.machines import SimMachine
from kube_fairlead_lab.sim.actors.managers import add_cloud_manager, add_manager
from kube_fairlead_lab.sim.actors.operators import add_operator
from kube_fairlead_lab.sim.actors.server import add_server, fresh_disk
from kube_fairlead_lab.sim.actors.users import Users
from kube_fairlead_lab.sim.actors.workloads import Workloads
from kube_fairlead_lab.sim.checkers.budgets import Budgets
from kube_fairlead_lab.sim.checkers.claim_order import ClaimOrder
from kube_fairlead_lab.sim.checkers.claim_owners import ClaimOwners
from kube_fairlead_lab.sim.checkers.deadlines import Deadlines
from kube_fairlead_lab.sim.checkers.driver_liveness import DriverLiveness
from kube_fairlead_lab.sim.checkers.driver_work import DriverWork
from kube_fairlead_lab.sim.checkers.durability import Durability
from kube_fairlead_lab.sim.checkers.evictions import Evictions
from kube_fairlead_lab.sim.checkers.failures import Failures
from kube_fairlead_lab.sim.checkers.finalizers import Finalizers
from kube_fairlead_lab.sim.checkers.graceful_deletions import GracefulDeletions
from kube_fairlead_lab.sim.checkers.leaders import Leaders
from kube_fairlead_lab.sim.checkers.linearizability import Linearizability
from kube_fairlead_lab.sim.checkers.liveness import Liveness
from kube_fairlead_lab.sim.checkers.maintenance import Maintenance
from kube_fairlead_lab.sim.checkers.node_deletions import NodeDeletions
from kube_fairlead_lab.sim.checkers.node_owners import NodeOwners
from kube_fairlead_lab.sim.checkers.offers import Offers
from kube_fairlead_lab.sim.checkers.one_claim import OneClaim
from kube_fairlead_lab.sim.checkers.records import Records
from kube_fairlead_lab.sim.checkers.shutdowns import Shutdowns
from kube_fairlead_lab.sim.checkers.states import States
from kube_fairlead_lab.sim.commits import Commits
from kube_fairlead_lab.sim.environment import Environment, ProcessRun, Violation
from kube_fairlead_lab.sim.fault_injector import FaultInjector
from kube_fairlead_lab.sim.loop import LoopStarved, SimLoop
from kube_fairlead_lab.sim.narration.entries import Entry, narrate
from kube_fairlead_lab.sim.narration.write_log import WriteLog
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["Outcome", "run"]

_ALONE_SECONDS = 60.0  # deleted nodes are recreated only after this time, so that controllers handle the deletion
_ISLAND = "island"  # a node whose agent is mostly away: the claimer of a manager handles its events
_PLATFORMS = ("xcloud", "xcloud2")  # one is a prefix of the other: ownership must not confuse them


@dataclasses.dataclass(frozen=True, slots=True)
class _DriverCheckers:
    """The checkers that observe calls to drivers."""

    finalizers: Finalizers
    driver_work: DriverWork
    driver_liveness: DriverLiveness
    offers: Offers


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed."""

    seed: int
    digest: str
    violation: Violation | None
    virtual_seconds: float
    counts: collections.Counter[str]
    faults: collections.Counter[str]
    history: tuple[Entry, ...]  # of a failure, or on request

    @property
    def counts_as_run(self) -> bool:
        """Whether the run had enough events and faults to be meaningful."""
        return self.counts["finished events"] >= 20 and self.faults.total() >= 10

    @classmethod
    def of_nothing(cls, seed: int) -> Outcome:
        """Return the outcome of a seed whose process crashed."""
        died = Violation("no crash", "the simulation itself crashed")
        return cls(seed, "", died, 0.0, collections.Counter(), collections.Counter(), ())


def run(
    seed: int,
    scenario: Scenario,
    actions: Sequence[Action] | None = None,
    *,
    with_history: bool = False,
    leftovers: list[object] | None = None,
) -> Outcome:
    """Play one seed. The same seed, scenario and actions give the same outcome, digest included.

    Without `actions`, the seed's own plan is played. The outcome of a failure includes its history; `with_history`
    includes it always. The history is put into words after the run. A caller that exits soon passes `leftovers`: the
    state of killed processes stays there. Otherwise it is cleaned up at the end of the run, and not before.
    """
    actions = plan(seed, scenario) if actions is None else actions
    fresh_disk()
    is_cleared = leftovers is None
    leftovers = [] if leftovers is None else leftovers
    with _deterministic(leftovers, is_cleared=is_cleared):
        loop = SimLoop(SeededRandomness(seed ^ 0x5EED))
        loop.set_exception_handler(lambda _loop, _context: None)  # checkers find the consequences
        environment = Environment(loop, seed)
        leftovers += [loop, environment]
        try:
            loop.run_until_complete(loop.start(loop.harness, _play(environment, scenario, actions), name="play"))
        except LoopStarved as error:
            environment.violate(Violation("liveness", str(error)))
        finally:
            environment.kill_all()
            loop.close()
        outcome = _outcome(environment, with_history=with_history)
        del loop, environment
    return outcome


async def _play(environment: Environment, scenario: Scenario, actions: Sequence[Action]) -> None:
    playing = environment.loop.start(
        environment.loop.harness, _scenario_run(environment, scenario, actions), name="story"
    )
    violated = environment.loop.start(environment.loop.harness, environment.violated.wait(), name="violated")
    await asyncio.wait([playing, violated], return_when=asyncio.FIRST_COMPLETED)
    if playing.done() and (error := playing.exception()) is not None:
        if not isinstance(error, Violation):
            raise error
        environment.violate(error)
    for task in (playing, violated):
        task.cancel()


def _outcome(environment: Environment, *, with_history: bool) -> Outcome:
    return Outcome(
        seed=environment.seed,
        digest=environment.trace.digest,
        # A copy without frames: they would keep the whole environment alive.
        violation=None
        if environment.violation is None
        else Violation(environment.violation.rule, environment.violation.what),
        virtual_seconds=environment.loop.time(),
        counts=environment.counts,
        faults=environment.network.injected,
        history=narrate(environment.trace.facts) if with_history or environment.violation is not None else (),
    )


async def _scenario_run(environment: Environment, scenario: Scenario, actions: Sequence[Action]) -> None:
    commits = Commits(environment.loop.time)
    write_log = WriteLog(environment.trace, commits)
    _watch_disk(environment, commits)
    liveness = Liveness(environment, commits)
    OneClaim(commits)
    ClaimOrder(commits)
    States(environment, commits)
    finalizers = Finalizers(environment, commits)
    driver_work = DriverWork(environment, commits)
    deadlines = Deadlines(environment, commits)
    Evictions(environment, commits)
    Records(environment, commits)
    leaders = Leaders(environment, commits)
    GracefulDeletions(environment, commits)
    shutdowns = Shutdowns(environment, commits)
    durability = Durability(environment, commits)
    Failures(environment)
    linearizability = Linearizability(environment, commits)
    clouds = {platform: SimCloud(environment, platform) for platform in _PLATFORMS}
    offers = Offers(environment, commits)
    node_deletions = NodeDeletions(environment, commits, clouds)
    request_checkers = (
        ClaimOwners(environment, commits),
        NodeOwners(environment, commits),
        Budgets(environment, commits),
        node_deletions,
        offers,
    )
    environment.start(add_server(environment, durability.opened, observers=(write_log, *request_checkers)))
    nodes = {f"node-{number}": (*_PLATFORMS, "")[number % 3] for number in range(scenario.nodes)}
    machines = {name: SimMachine(environment, name, number, shutdowns) for number, name in enumerate(nodes)}
    for machine in machines.values():
        shutdowns.watch(machine)
    user = _user(environment)
    client = environment.client(user)
    users = Users(
        environment, commits, client, clouds, {**nodes, _ISLAND: ""}, machines, Maintenance(environment, commits)
    )
    workloads = Workloads(environment, commits, client, list(machines), user.randomness)
    await _until(lambda: environment.network.server() is not None, environment.clock)
    await users.set_up()
    await workloads.set_up()
    checkers = _DriverCheckers(finalizers, driver_work, DriverLiveness(environment, commits), offers)
    release = DriverRelease()
    drivers = _populate_nodes(environment, commits, scenario, machines, checkers, release)
    drivers += _populate_managers(environment, scenario, leaders, clouds, checkers)
    environment.start(add_part_time_agent(environment, _ISLAND))
    environment.loop.start(environment.loop.harness, leaders.audit(), name="audit of leaders")
    for what, checker in (("claims", deadlines), ("drivers", checkers.driver_liveness), ("transitions", offers)):
        environment.loop.start(environment.loop.harness, checker.audit(), name=f"audit of {what}")
    environment.loop.start(environment.loop.harness, workloads.run(), name="workloads")
    injector = FaultInjector(environment, users, leaders, clouds, drivers, machines, release)
    await injector.carry_out(actions, scenario.network, seconds=scenario.chaos_minutes * 60)
    injector.restore()
    calm_since = environment.clock.monotonic()
    end = calm_since + scenario.calm_minutes * 60
    while not (liveness.is_over and shutdowns.is_over and offers.is_over) and environment.clock.monotonic() < end:
        calm_seconds = environment.clock.monotonic() - calm_since
        if calm_seconds >= _ALONE_SECONDS:
            deadlines.check_orphans()
            if not node_deletions.are_due(calm_seconds):
                await users.restore_nodes()
        await environment.clock.sleep(10.0)
    liveness.at_end()
    shutdowns.at_end()
    offers.at_end()
    linearizability.at_end()


def _user(environment: Environment) -> ProcessRun:
    """Return the user, as a process that never ends."""
    randomness = SeededRandomness(int(environment.chance.random() * 2**53))
    return ProcessRun("user", 1, environment.loop.harness, environment.clock, randomness)


def _populate_nodes(
    environment: Environment,
    commits: Commits,
    scenario: Scenario,
    machines: dict[str, SimMachine],
    checkers: _DriverCheckers,
    release: DriverRelease,
) -> list[DriverHost]:
    drivers = []
    for node, machine in machines.items():
        hosts: dict[str, DriverHost] = {}
        for name, make in (("driver", worker(node, release)), ("drain", drainer(node))):
            host = hosts[name] = _add_driver(environment, f"agent-{node}", f"{name}-{node}", make, checkers)
            drivers.append(host)
            checkers.driver_liveness.watch(node, host)
            checkers.offers.watch(host)
        environment.start(add_kubelet(environment, commits, machine))
        wait = scenario.driver_wait_seconds
        environment.start(add_agent(environment, node, hosts, driver_wait_seconds=wait, machine=machine))
        if len(drivers) == 2:
            # A second agent for the first node, started by mistake on another machine.
            environment.start(add_agent(environment, node, hosts, driver_wait_seconds=wait, name=f"agent-{node}-twin"))
    return drivers


def _add_driver(
    environment: Environment,
    caller: str,
    name: str,
    make: Callable[[DriverHost, ProcessRun], Driver],
    checkers: _DriverCheckers,
) -> DriverHost:
    host = DriverHost(
        environment, environment.link(f"{caller} ~ {name}"), make, checkers.finalizers.called, checkers.driver_work
    )
    environment.on_death.append(host.died)
    environment.start(environment.add(name, host.main))
    return host


def _populate_managers(
    environment: Environment,
    scenario: Scenario,
    leaders: Leaders,
    clouds: dict[str, SimCloud],
    checkers: _DriverCheckers,
) -> list[DriverHost]:
    drivers = []
    for number in range(scenario.managers):
        name = f"manager-{number}"
        drivers.append(_add_driver(environment, name, f"driver-{name}", ControllerManagerDriver, checkers))
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
        # The server must not see the exception of a checker.
        try:
            commits.take(row)
        except Violation as violation:
            environment.violate(violation)

    disk.on_commit = committed


async def _until(condition: Callable[[], bool], clock: Clock) -> None:
    while not condition():
        await clock.sleep(0.01)


@contextlib.contextmanager
def _deterministic(leftovers: list[object], *, is_cleared: bool) -> Iterator[None]:
    """Disable what would differ between two runs of one seed, and clean up after killed processes.

    Garbage collection runs at times that the interpreter chooses, and then runs the `finally` blocks of unfinished
    generators. So it is disabled during the run, and those blocks run at the end.
    """
    start = threading.Thread.start
    was_enabled = gc.isenabled()
    was_silent = logging.root.manager.disable
    gc.disable()
    logging.disable(logging.CRITICAL)  # the trace records what happens
    _freeze_program()
    try:
        yield
    finally:
        if is_cleared:
            _clear(leftovers)
        threading.Thread.start = start  # type: ignore[method-assign]  # killed managers did not restore it
        logging.disable(was_silent)
        if was_enabled and is_cleared:
            gc.enable()


def _clear(leftovers: list[object]) -> None:
    hook, sys.unraisablehook = sys.unraisablehook, lambda _what: None
    with warnings.catch_warnings(action="ignore"):
        leftovers.clear()
        # `finally` blocks create new garbage.
        while gc.collect():
            pass
    sys.unraisablehook = hook


@functools.cache
def _freeze_program() -> None:
    """Exclude the program itself from later collections."""
    gc.collect()
    gc.freeze()
