"""`fairlead history`: shows the finished LifecycleEvents of nodes. See `kube_fairlead.overview`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import node_flags

__all__ = ["command"]


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    return "" if value is None else flag_values.subdomain(ctx, parameter, value)


@click.command("history")
@click.argument("node", required=False, callback=_node_name)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; json and yaml have every field.",
)
@node_flags.access
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Show the finished LifecycleEvents of nodes, with requester and result.

    Without NODE: one line per event, newest first. With NODE: all fields of each event, and its pods with what blocked
    their eviction. The exit code is 1 if neither the node nor a record of it exists.
    """
    from kube_fairlead import overview
    from kube_fairlead.cli import history_text

    async def read() -> overview.History:
        async with node_flags.connect(invocation, flags, "fairlead-history") as client:
            return await overview.read_history(client, flags["node"])

    history = asyncio.run(read())
    match flags["output"]:
        case "json":
            text = history_text.as_json(history)
        case "yaml":
            text = history_text.as_yaml(history)
        case _ if flags["node"]:
            text = history_text.as_page(history)
        case _:
            text = history_text.as_table(history)
    click.echo(text, nl=False)
