"""A component whose only controller does not end: `deaf` hears neither the request nor the cancellation, `blocking`
keeps the whole event loop from running."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import click

from kube_fairlead import client
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import manager_flags, shared_flags
from kube_fairlead.client.client import Client
from kube_fairlead.election import Lock
from kube_fairlead.manager import Context, Controller, GroupPlan

NAME = "stubborn"


async def deaf(_context: Context) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def blocking(context: Context) -> None:
    # Only when the Lease is surely ours; then never again anything.
    await context.client.clock.sleep(0.5)
    time.sleep(3600)  # noqa: ASYNC251 - the point of it


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path))
@click.option("--manner", type=click.Choice(["deaf", "blocking"]))
@manager_flags.manager_flags(lease=NAME, port=0)
@shared_flags.feature_gates
def main(kubeconfig: Path, manner: str, **flags: Any) -> None:
    def connect() -> Client:
        return client.connect(kubeconfig_path=kubeconfig, component=NAME, environment=Environment({}))

    lock = Lock(flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"])
    controller = Controller(name=manner, run={"deaf": deaf, "blocking": blocking}[manner])
    plan = GroupPlan(lock=lock, controllers=(controller,), connect=connect)
    identity = manager_flags.make_identity(connect(), Environment({}))
    manager_flags.run_manager(manager_flags.make_manager(flags, component=NAME, identity=identity, groups=[plan]))


if __name__ == "__main__":
    main()
