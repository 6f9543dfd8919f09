"""`fairlead history`: what was done to nodes, by whom, and how it ended. See `kube_fairlead.overview`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from kube_fairlead.cli import options, values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import flags as node_flags

__all__ = ["command"]


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    return "" if value is None else values.subdomain(ctx, parameter, value)


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
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Show what was done to nodes, by whom, and how it ended.

    Without NODE one line per finished event, newest first; with NODE everything about each event, with its pods and
    what blocked their eviction. Exit code 1 if neither the node nor a record of it exists.
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
