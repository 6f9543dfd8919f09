"""`fairlead drain`: requests the drain of nodes and prints its progress. See `kube_fairlead.operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kube_fairlead.base import process
from kube_fairlead.cli import flag_values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import node_flags

if TYPE_CHECKING:
    from kube_fairlead.api.core_v1 import Node
    from kube_fairlead.client import Client
    from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["command"]

_DETACHED = 130  # as a shell reports for a program that Ctrl-C ended


@click.command("drain", cls=node_flags.GoCommand)
@node_flags.node_choice
@node_flags.limits
@node_flags.drain_flags()
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="client: only print the pods that would be evicted. server: also send each eviction to the API server as a "
    "dry run.",
)
@click.option(
    "--chunk-size",
    type=int,
    default=500,
    show_default=True,
    callback=lambda _ctx, _parameter, value: max(0, value),
    help="Maximum number of objects per list request of nodes and pods; 0: no limit.",
)
@node_flags.waiting
@click.option(
    "--transition",
    default="node-drain",
    show_default=True,
    callback=flag_values.subdomain,
    help="LifecycleTransition to request; one of your own may have an SLA, a time limit.",
)
@node_flags.access
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> int:
    """Drain nodes before maintenance; a driver on each node evicts its pods.

    Creates a LifecycleEvent for each node and prints its progress. Ctrl-C stops printing, and the drain continues; the
    same command prints its progress again. The flags and defaults are those of kubectl drain.
    """
    node_flags.check_choice(flags)
    options = node_flags.drain_options(flags)
    failed: list[str] = []
    not_started: list[str] = []
    ended = False
    selected = 0

    async def run() -> None:
        nonlocal ended, selected, not_started
        from kube_fairlead import operations
        from kube_fairlead.cli.nodes.console import open_console
        from kube_fairlead.cli.nodes.progress_printer import ProgressPrinter

        async with node_flags.connect(invocation, flags, "fairlead-drain") as client:
            nodes = await operations.select_nodes(
                client, flags["nodes"], selector=flags["selector"], chunk_size=flags["chunk_size"]
            )
            if not nodes:
                pass  # as kubectl: no node has these labels, and nothing is printed
            elif flags["dry_run"] != "none":
                failed.extend(await _preview(client, nodes, options, flags))
            else:
                node_flags.check_waiting(flags, nodes=len(nodes))
                request = operations.DrainRequest(
                    options=options,
                    transition=flags["transition"],
                    limits=operations.Limits(max_unavailable=flags["max_unavailable"], per_zone=flags["per_zone"]),
                    count_unavailable=_is_limited(),
                    wait=flags["wait"],
                )
                with open_console() as console:
                    report = ProgressPrinter(console, "drain", [node.name for node in nodes])
                    selected, not_started = len(nodes), report.not_started
                    outcomes = await operations.drain(client, nodes, request, report=report)
                failed.extend(name for name, outcome in outcomes.items() if outcome.failed)
        ended = True

    process.run(run)
    if not ended and len(not_started) == selected:
        click.echo("interrupted; nothing was requested", err=True)
        return _DETACHED
    if not ended:
        click.echo("detached; the drain continues. The same command follows it again.", err=True)
        if not_started:
            click.echo(f"not started, and not requested: {', '.join(not_started)}", err=True)
        return _DETACHED
    if failed:
        click.echo("There are pending nodes to be drained:\n" + "\n".join(f" {name}" for name in failed), err=True)
    return 1 if failed else 0


def _is_limited() -> bool:
    """Whether the user set a limit, against which unavailable nodes count. Without one, as kubectl."""
    context = click.get_current_context()
    given = (context.get_parameter_source(name) for name in ("max_unavailable", "per_zone"))
    return any(source is ParameterSource.COMMANDLINE for source in given)


async def _preview(client: Client, nodes: list[Node], options: DrainOptions, flags: dict[str, Any]) -> list[str]:
    from kube_fairlead.drivers.drain import drain_preview

    on_server = flags["dry_run"] == "server"
    mode = "server dry run" if on_server else "dry run"
    failed = []
    for node in nodes:
        click.echo(f"node/{node.name} {'already ' if node.spec.unschedulable else ''}cordoned ({mode})")
    for node in nodes:
        preview = await drain_preview.preview(
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
