"""`fairlead history`: what was done to nodes, by whom, how it ended.

Here belongs reading the records of nodes and showing them; what a record says is decided by `lifecycle.overview`.
"""

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
    help="How to print it; json and yaml hold everything.",
)
@node_flags.access
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Show what was done to nodes, by whom, and how it ended.

    Without NODE one line per finished event, newest first; with NODE everything about each, with the pods that had to
    go and what blocked them. Exit code 1 when there is neither such a node nor a record of one.
    """
    from kube_fairlead.cli.history import showing

    async def look() -> showing.History:
        async with node_flags.connect(invocation, flags, "fairlead-history") as client:
            return await showing.look(client, flags["node"])

    history = asyncio.run(look())
    match flags["output"]:
        case "json":
            text = showing.as_json(history)
        case "yaml":
            text = showing.as_yaml(history)
        case _ if flags["node"]:
            text = showing.as_page(history)
        case _:
            text = showing.as_table(history)
    click.echo(text, nl=False)
