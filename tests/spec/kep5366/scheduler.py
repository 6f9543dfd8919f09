"""The hollow scheduler as a component of its own: the counterpart of the proposal's kube-scheduler.

It schedules pods that name it and no others, so that it leaves alone what other tests have on the same control plane.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kube_fairlead import client
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import manager_flags, shared_flags
from kube_fairlead.client.client import Client
from kube_fairlead.election import Lock
from kube_fairlead.manager import GroupPlan
from kube_fairlead_lab.hollow.scheduler import scheduler

NAME = "hollow-scheduler"


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path))
@manager_flags.manager_flags(lease=NAME, port=0)
@shared_flags.feature_gates
def main(kubeconfig: Path, **flags: Any) -> None:
    def connect() -> Client:
        return client.connect(kubeconfig_path=kubeconfig, component=NAME, environment=Environment({}))

    lock = Lock(flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"])
    plan = GroupPlan(lock=lock, controllers=(scheduler(scheduler_name=NAME),), connect=connect)
    identity = manager_flags.make_identity(connect(), Environment({}))
    manager_flags.run_manager(manager_flags.make_manager(flags, component=NAME, identity=identity, groups=[plan]))


if __name__ == "__main__":
    main()
