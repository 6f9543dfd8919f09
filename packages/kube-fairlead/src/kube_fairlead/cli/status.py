"""`fairlead status`: shows the transition of each node. See `kube_fairlead.overview`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client

__all__ = ["command"]


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    return "" if value is None else flag_values.subdomain(ctx, parameter, value)


@click.command("status")
@click.argument("node", required=False, callback=_node_name)
@shared_flags.cluster
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; json and yaml have every field.",
)
@click.option(
    "--cloud-provider-platforms",
    "platforms",
    metavar="NAME,...",
    default="",
    callback=flag_values.listed,
    help="Also show each node's ownership for a cloud controller manager of these platforms: Owned (it manages the "
    "node), Foreign (it never writes to the node), Unknown (the node names no platform).",
)
@shared_flags.discovered_group
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Show the LifecycleEvent of each node, the process that claimed it, and what blocks it.

    Without NODE: one line per node. With NODE: all fields of the node and its LifecycleEvents. The exit code is 1 if
    the node does not exist.
    """
    from kube_fairlead import overview
    from kube_fairlead.cli import status_text
    from kube_fairlead.cloud.ownership import PlatformError, parse_platforms

    try:
        platforms = parse_platforms(flags["platforms"])
    except PlatformError as error:
        raise click.BadParameter(str(error), param_hint="--cloud-provider-platforms") from error

    async def read() -> overview.ClusterStatus:
        async with _connect(invocation, flags) as client:
            return await overview.read_cluster_status(
                client, flags["node"], platforms=platforms, group=flags["lifecycle_api_group"] or ""
            )

    status = asyncio.run(read())
    for note in status.notes:
        click.echo(f"Note: {note}", err=True)
    match flags["output"]:
        case "json":
            text = status_text.as_json(status)
        case "yaml":
            text = status_text.as_yaml(status)
        case _ if flags["node"]:
            text = status_text.as_page(status)
        case _:
            text = status_text.as_table(status)
    click.echo(text, nl=False)


def _connect(invocation: Invocation, flags: dict[str, Any]) -> Client:
    from kube_fairlead import client

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component="fairlead-status",
        environment=invocation.environment,
    )
