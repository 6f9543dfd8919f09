"""`fairlead drain`: have nodes drained, by their own drivers, and watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kube_fairlead.cli import process, values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import flags as node_flags

if TYPE_CHECKING:
    from kube_fairlead.api.core_v1 import Node
    from kube_fairlead.cli.nodes.showing import Screen
    from kube_fairlead.client import Client
    from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["command"]

_DETACHED = 130  # what a shell reports for a program that Ctrl-C ended


@click.command("drain", cls=node_flags.GoCommand)
@node_flags.node_choice
@node_flags.limits
@node_flags.drain_flags()
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="Only say which pods would go (client), or ask the server too whether they may (server).",
)
@click.option(
    "--chunk-size",
    type=int,
    default=500,
    show_default=True,
    callback=lambda _ctx, _parameter, value: max(0, value),
    help="List nodes and pods in chunks of this many; 0 and less: all at once.",
)
@node_flags.waiting
@click.option(
    "--transition",
    default="node-drain",
    show_default=True,
    callback=values.subdomain,
    help="The LifecycleTransition to ask for; one of your own may have an SLA.",
)
@node_flags.access
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> int:
    """Drain nodes in preparation for maintenance, on the server's side.

    Asks for the drain by a LifecycleEvent and follows it. Ctrl-C stops following, not the drain; the same command
    again follows on. Flags are those of kubectl drain, with its defaults.
    """
    node_flags.check_choice(flags)
    options = node_flags.drain_options(flags)
    failed: list[str] = []
    not_begun: list[str] = []
    ended = False
    meant = 0

    async def run() -> None:
        nonlocal ended, meant
        from kube_fairlead.cli.nodes import asking, showing

        async with node_flags.connect(invocation, flags, "fairlead-drain") as client:
            nodes = await asking.chosen_nodes(client, flags["nodes"], flags["selector"], chunk_size=flags["chunk_size"])
            if not nodes:
                pass  # as kubectl: no node has these labels, and nothing is said
            elif flags["dry_run"] != "none":
                failed.extend(await _preview(client, nodes, options, flags))
            else:
                node_flags.check_waiting(flags, nodes=len(nodes))
                not_begun.extend(node.name for node in nodes)
                meant = len(nodes)
                with showing.screen() as screen:
                    failed.extend(await _drain(client, screen, nodes, options, flags, not_begun))
        ended = True

    process.run(run)
    if not ended and len(not_begun) == meant:
        click.echo("interrupted; nothing was asked for", err=True)
        return _DETACHED
    if not ended:
        click.echo("detached; the drain goes on. The same command again follows it.", err=True)
        if not_begun:
            click.echo(f"not begun, and not asked for: {', '.join(not_begun)}", err=True)
        return _DETACHED
    if failed:
        click.echo("There are pending nodes to be drained:\n" + "\n".join(f" {name}" for name in failed), err=True)
    return 1 if failed else 0


async def _drain(
    client: Client,
    screen: Screen,
    nodes: list[Node],
    options: DrainOptions,
    flags: dict[str, Any],
    not_begun: list[str],
) -> list[str]:
    """The nodes that could not be drained. Takes those that are begun off the list of those that are not."""
    from kube_fairlead.cli.nodes import asking, carrying, rolling
    from kube_fairlead.lifecycle.drain import rollout
    from kube_fairlead.lifecycle.drain.options import spell

    request = carrying.Request(
        transition=await asking.check_transition(client, flags["transition"]),
        verb="drain",
        done="drained",
        options=spell(options),
        wait=flags["wait"],
        timeout=options.timeout,
    )
    limits = rollout.Limits(max_unavailable=flags["max_unavailable"], per_zone=flags["per_zone"])

    async def work(name: str) -> bool:
        not_begun.remove(name)
        return await carrying.carry(client, screen, request, name)

    watched = _counts_others()
    results = await rolling.roll(
        nodes,
        limits,
        work,
        on_error=carrying.complainer(screen, request.verb),
        stays_out=True,
        unavailable=rolling.looker(client, nodes) if watched else None,
        held_up=rolling.waiter(client, screen) if watched else None,
    )
    return [name for name, succeeded in results.items() if not succeeded]


def _counts_others() -> bool:
    """Whether nodes that are out of service hold others back: where the user set a limit. Without one, as kubectl."""
    context = click.get_current_context()
    given = (context.get_parameter_source(name) for name in ("max_unavailable", "per_zone"))
    return any(source is ParameterSource.COMMANDLINE for source in given)


async def _preview(client: Client, nodes: list[Node], options: DrainOptions, flags: dict[str, Any]) -> list[str]:
    from kube_fairlead.drivers.drain import previewing

    on_server = flags["dry_run"] == "server"
    mode = "server dry run" if on_server else "dry run"
    failed = []
    for node in nodes:
        click.echo(f"node/{node.name} {'already ' if node.spec.unschedulable else ''}cordoned ({mode})")
    for node in nodes:
        preview = await previewing.preview(
            client, node.name, options, on_server=on_server, chunk_size=flags["chunk_size"]
        )
        for line in preview.lines:
            click.echo(line)
        for warning in preview.warnings:
            click.echo(f"Warning: {warning}", err=True)
        if preview.problem:
            click.echo(f"error: unable to drain node {node.name!r}: {preview.problem}", err=True)
            failed.append(node.name)
        else:
            click.echo(f"node/{node.name} drained ({mode})")
    return failed
