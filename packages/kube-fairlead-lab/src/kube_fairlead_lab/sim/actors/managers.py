"""Replicas of the controller manager and of the cloud controller managers."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Final

from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.driver_directory import DriverDirectory, Registration
from kube_fairlead.client.client import Client
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.manager_names import identity_of, lease_name
from kube_fairlead.controllers.claimer import ClaimerOptions, claimer
from kube_fairlead.controllers.event_gc import event_gc
from kube_fairlead.controllers.shutdown_observer import shutdown_observer
from kube_fairlead.controllers.stall import stall
from kube_fairlead.controllers.transition_gc import transition_gc
from kube_fairlead.election import LeadershipLost, Lock, Timing
from kube_fairlead.lifecycle.garbage_collection import Retention
from kube_fairlead.lifecycle.stalls import StallLimits
from kube_fairlead.manager import Context, Controller, GroupPlan, Manager, ManagerOptions
from kube_fairlead_lab.sim.actors.clouds import POD_RANGE, SimCloud
from kube_fairlead_lab.sim.actors.drivers import CENTRAL, REMOTE, DriverHost
from kube_fairlead_lab.sim.checkers.leaders import Leaders
from kube_fairlead_lab.sim.environment import Actor, Environment, ProcessRun

__all__ = ["MANAGER_LOCK", "add_cloud_manager", "add_manager"]

MANAGER_LOCK = Lock("kube-system", "fairlead-controller-manager")
# Twice the default, to halve the work of an idle cluster.
_TIMING: Final = Timing(lease_duration_seconds=30.0, renew_deadline_seconds=20.0, retry_period_seconds=5.0)

# Routes are synced seldom, to reduce the work of an idle cluster.
_CLOUD: Final = CloudSettings(
    controllers=("*", "route"), cluster_cidr=POD_RANGE, route_reconciliation_period_seconds=20.0
)

# Short, so that an event of a node that never registers is collected within the run.
_RETENTION: Final = Retention(unknown_node=dt.timedelta(seconds=90))

# Longer than any driver is stopped, and short enough for the calm phase.
_OFFERED: Final = dt.timedelta(seconds=300)

# Short, so that stalls are reported within a few minutes.
_PATIENCE: Final = StallLimits(pending=dt.timedelta(seconds=40), terminating=dt.timedelta(seconds=20))


def add_manager(environment: Environment, number: int, leaders: Leaders, driver: DriverHost) -> Actor:
    """Add one replica of the controller manager, with a driver for nodes without a running agent."""
    registration = Registration(driver=CENTRAL, endpoint="", owner=0, channel=driver, transitions=REMOTE)

    def controllers() -> tuple[Controller, ...]:
        directory = DriverDirectory()
        directory.add(registration)
        return (
            event_gc(_RETENTION, workers=2),
            transition_gc(_OFFERED),
            shutdown_observer(silence=dt.timedelta(seconds=60)),
            stall(_PATIENCE),
            claimer(ClaimerOptions(registry=None, directory=directory)),
        )

    return _add(environment, f"manager-{number}", MANAGER_LOCK, controllers, leaders)


def add_cloud_manager(environment: Environment, cloud: SimCloud, number: int, leaders: Leaders) -> Actor:
    """Add one replica of a cloud controller manager."""
    platforms = cloud.supported_platforms()
    lock = Lock("kube-system", lease_name(identity_of(cloud, platforms), platforms))
    name = f"ccm-{cloud.name}-{number}"
    cloud.links[name] = environment.link(f"{name} ~ cloud-{cloud.name}")

    def controllers() -> tuple[Controller, ...]:
        return (CloudManager(cloud, platforms, _CLOUD).as_controller(instance=name),)

    return _add(environment, name, lock, controllers, leaders)


def _add(
    environment: Environment, name: str, lock: Lock, controllers: Callable[[], tuple[Controller, ...]], leaders: Leaders
) -> Actor:
    async def main(process_run: ProcessRun) -> None:
        def connect() -> Client:
            return environment.client(process_run)

        watched = tuple(
            _observed(one, lock, process_run, leaders) for one in (*controllers(), _slow_to_stop(process_run))
        )
        plan = GroupPlan(lock=lock, controllers=watched, connect=connect)
        manager = Manager(
            ManagerOptions(
                component=name, identity=f"{name}_{process_run.number}", groups=(plan,), timing=_TIMING, watchdog=False
            ),
            clock=process_run.clock,
            randomness=process_run.randomness,
            metrics=DiscardedMetrics(),
            on_overrun=environment.exit_on_overrun(name),
        )
        leaders.managers[name] = manager
        await manager.run()

    return environment.add(name, main, allowed=(LeadershipLost,))


def _slow_to_stop(process_run: ProcessRun) -> Controller:
    """Return a controller that takes time to stop."""

    async def run(context: Context) -> None:
        await context.stopping.wait()
        await process_run.clock.sleep(process_run.randomness.uniform(0.0, 5.0))

    return Controller(name="laggard", run=run)


def _observed(controller: Controller, lock: Lock, process_run: ProcessRun, leaders: Leaders) -> Controller:
    async def run(context: Context) -> None:
        with leaders.at_work(str(lock), process_run.process):
            await controller.run(context)

    return dataclasses.replace(controller, run=run)
