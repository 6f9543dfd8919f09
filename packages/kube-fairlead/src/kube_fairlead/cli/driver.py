"""`fairlead driver`: runs one of Fairlead's own drivers on a node. See `kube_fairlead.drivers`."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.base import process
from kube_fairlead.cli import flag_values, manager_flags, shared_flags
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import node_flags

if TYPE_CHECKING:
    from kube_fairlead.client import Client

__all__ = ["command", "drain"]


def _instance(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not all(letter.isalnum() or letter in "-_." for letter in value):
        raise click.BadParameter(
            f"{value!r} is not allowed in a file name: use letters, digits, '-', '_' and '.'", ctx, parameter
        )
    return value


@click.group("driver")
def command() -> None:
    """Run a driver, which carries out the LifecycleEvents of a node."""


@command.command("drain", cls=node_flags.GoCommand)
@node_flags.drain_flags(profile=True)
@click.option(
    "--node-name",
    default="",
    callback=flag_values.optional_subdomain,
    help="Node that this driver drains; it rejects all others.  [default: any node]",
)
@click.option(
    "--registry-dir",
    type=flag_values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=flag_values.socket_folder,
    help="Folder for the registration socket, the same as the agent's.",
)
@click.option(
    "--plugin-dir",
    type=flag_values.FOLDER,
    callback=flag_values.optional_socket_folder,
    help="Folder for the service socket.  [default: plugins beside the registry, or NAME-plugins if the registry has "
    "another NAME than plugins_registry]",
)
@click.option(
    "--instance",
    default="",
    callback=_instance,
    help="Unique name among the processes of this driver on the node, such as the pod's uid.",
)
@click.option(
    "--shutdown-grace-period",
    metavar="DURATION",
    default="10s",
    show_default=True,
    callback=flag_values.duration,
    help="How long running calls may take after SIGTERM. After it, they are cancelled, and the next process resumes "
    "them.",
)
@manager_flags.serving_flags()
@node_flags.access
@shared_flags.logging
@click.pass_obj
def drain(invocation: Invocation, /, **flags: Any) -> None:
    """Run the driver fairlead.dev/drain, which drains and uncordons nodes for their agent.

    The drain flags have the names of kubectl drain's flags and other defaults, shown with each flag. A LifecycleEvent
    overrides a flag by the annotation drain.fairlead.dev/<flag>.
    """
    from kube_fairlead.base.metrics import DiscardedMetrics, PrometheusMetrics
    from kube_fairlead.client.recorder import EventRecorder
    from kube_fairlead.drivers import sdk
    from kube_fairlead.drivers.drain.driver import DrainDriver

    profile = node_flags.drain_options(flags)
    pages = manager_flags.serving_options(flags, lambda: _connect(invocation, flags))
    metrics = DiscardedMetrics() if pages.port is None else PrometheusMetrics(process_metrics=True)
    serving = sdk.Options(
        registry=flags["registry_dir"],
        plugins=flags["plugin_dir"],
        instance=flags["instance"],
        grace_seconds=flags["shutdown_grace_period"],
        pages=pages,
    )
    flag_values.make_folder("--registry-dir", serving.registry)
    flag_values.make_folder("--plugin-dir" if serving.plugins else "--registry-dir", serving.plugins_folder)

    async def run() -> None:
        import asyncio

        async with _connect(invocation, flags) as client:
            recorder = EventRecorder(client, controller="fairlead.dev/drain", instance=flags["node_name"] or "drain")
            driver = DrainDriver(
                client, node_name=flags["node_name"], profile=profile, recorder=recorder, metrics=metrics
            )
            async with recorder.running(), sdk.serving(driver, serving, metrics=metrics) as served:
                click.echo(f"fairlead driver drain serves {served.service_socket}")
                await asyncio.Event().wait()

    process.run(run)


def _connect(invocation: Invocation, flags: dict[str, Any]) -> Client:
    return node_flags.connect_driver(invocation, flags, "fairlead-drain-driver")
