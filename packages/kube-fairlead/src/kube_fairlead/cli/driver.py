"""`fairlead driver`: the lifecycle drivers that Fairlead brings along, each a process on a node."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.base import process
from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import flags as node_flags

if TYPE_CHECKING:
    from kube_fairlead.client import Client

__all__ = ["command", "drain"]


def _instance(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not all(letter.isalnum() or letter in "-_." for letter in value):
        raise click.BadParameter(
            f"{value!r} cannot be part of a file's name: letters, digits, '-', '_' and '.' only", ctx, parameter
        )
    return value


@click.group("driver")
def command() -> None:
    """Run a lifecycle driver on a node."""


@command.command("drain", cls=node_flags.GoCommand)
@node_flags.drain_flags(profile=True)
@click.option(
    "--node-name", default="", callback=values.optional_subdomain, help="The only node to act on [default: any]."
)
@click.option(
    "--registry-dir",
    type=values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=manager_flags.socket_folder,
    help="Where the agent looks for registration sockets.",
)
@click.option(
    "--plugin-dir",
    type=values.FOLDER,
    callback=manager_flags.optional_socket_folder,
    help="Where to serve [default: the folder plugins beside the registry; NAME-plugins beside one of another name].",
)
@click.option(
    "--instance", default="", callback=_instance, help="Unique among the processes of this driver, such as a pod's uid."
)
@click.option(
    "--shutdown-grace-period",
    default="10s",
    show_default=True,
    callback=options.duration,
    help="How long running calls may continue after a signal to stop; the next process continues the rest.",
)
@manager_flags.serving_flags()
@node_flags.access
@options.logging
@click.pass_obj
def drain(invocation: Invocation, /, **flags: Any) -> None:
    """Drain and uncordon nodes when their agent calls (driver fairlead.dev/drain).

    The drain flags here have the names of kubectl drain's flags, and other defaults: see each one. They apply to events
    without the annotation drain.fairlead.dev/<flag>.
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
    values.make_folder("--registry-dir", serving.registry)
    values.make_folder("--plugin-dir" if serving.plugins else "--registry-dir", serving.plugins_folder)

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
