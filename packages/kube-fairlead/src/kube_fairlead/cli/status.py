"""`fairlead status`: what each node is doing, who holds it, what blocks it. See `kube_fairlead.overview`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client

__all__ = ["command"]


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    return "" if value is None else values.subdomain(ctx, parameter, value)


@click.command("status")
@click.argument("node", required=False, callback=_node_name)
@click.option("--kubeconfig", type=values.FILE, help="The kubeconfig [default: the one that kubectl would use].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
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
    callback=manager_flags.listed,
    help="Also show each node's ownership for a cloud controller manager of these platforms: Owned, Foreign, Unknown.",
)
@values.discovered_group
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Show what each node is doing, who holds it, what blocks it.

    Without NODE one line per node; with NODE everything about it. Exit code 1 when there is no such node.
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
