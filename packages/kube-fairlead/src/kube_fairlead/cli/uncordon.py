"""`fairlead uncordon`: requests the uncordon of nodes and prints its progress. See `kube_fairlead.operations`."""

from __future__ import annotations

from typing import Any

import click

from kube_fairlead.base import process
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import node_flags

__all__ = ["command"]

_DETACHED = 130


@click.command("uncordon", cls=node_flags.GoCommand)
@node_flags.node_choice
@node_flags.go_boolean("--force", default=False, text="Also remove a cordon that another tool or user set.")
@node_flags.waiting
@node_flags.access
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> int:
    """Make nodes schedulable again after `fairlead drain`.

    Creates a LifecycleEvent for each node and prints its progress. A cordon that another tool or user set stays, unless
    --force is set. Ctrl-C stops printing, and the request stays.
    """
    node_flags.check_choice(flags)
    failed: list[str] = []
    ended = begun = False

    async def run() -> None:
        nonlocal ended, begun
        from kube_fairlead import operations
        from kube_fairlead.cli.nodes.console import open_console
        from kube_fairlead.cli.nodes.progress_printer import ProgressPrinter

        async with node_flags.connect(invocation, flags, "fairlead-uncordon") as client:
            nodes = await operations.select_nodes(client, flags["nodes"], selector=flags["selector"])
            # As kubectl: if no node has these labels, nothing is printed.
            if nodes:
                request = operations.UncordonRequest(force=flags["force"], wait=flags["wait"])
                with open_console() as console:
                    report = ProgressPrinter(console, "uncordon", [node.name for node in nodes])
                    try:
                        outcomes = await operations.uncordon(client, nodes, request, report=report)
                    finally:
                        begun = len(report.not_started) < len(nodes)
                failed.extend(name for name, outcome in outcomes.items() if outcome.failed)
        ended = True

    process.run(run)
    if not begun and not ended:
        click.echo("interrupted; nothing was requested", err=True)
        return _DETACHED
    if not ended:
        click.echo("detached; the request stays. The same command follows it again.", err=True)
        return _DETACHED
    return 1 if failed else 0
