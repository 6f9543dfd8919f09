"""`fairlead uncordon`: have nodes take pods again."""

from __future__ import annotations

from typing import Any

import click

from kube_fairlead.cli import process
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import flags as node_flags

__all__ = ["command"]

_DETACHED = 130


@click.command("uncordon", cls=node_flags.GoCommand)
@node_flags.node_choice
@node_flags.go_boolean("--force", default=False, text="Also undo a cordon that somebody else made.")
@node_flags.waiting
@node_flags.access
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> int:
    """Mark nodes as schedulable again, after a drain of Fairlead's.

    A cordon that somebody else made stays, unless --force says otherwise. Ctrl-C stops following, not the request.
    """
    node_flags.check_choice(flags)
    failed: list[str] = []
    ended = begun = False

    async def run() -> None:
        nonlocal ended, begun
        from kube_fairlead.api.reserved import NODE_UNCORDON
        from kube_fairlead.cli.nodes import asking, carrying, rolling, showing
        from kube_fairlead.lifecycle.drain import rollout

        async with node_flags.connect(invocation, flags, "fairlead-uncordon") as client:
            nodes = await asking.chosen_nodes(client, flags["nodes"], flags["selector"])
            if not nodes:
                ended = True  # as kubectl: no node has these labels, and nothing is said
                return
            request = carrying.Request(
                transition=await asking.check_transition(client, NODE_UNCORDON.name),
                verb="uncordon",
                done="uncordoned",
                options={"force": "true"} if flags["force"] else {},
                wait=flags["wait"],
            )
            limits = rollout.Limits(max_unavailable=len(nodes))
            begun = True
            with showing.screen() as screen:
                results = await rolling.roll(
                    nodes,
                    limits,
                    lambda name: carrying.carry(client, screen, request, name),
                    on_error=carrying.complainer(screen, request.verb),
                )
        failed.extend(name for name, succeeded in results.items() if not succeeded)
        ended = True

    process.run(run)
    if not begun and not ended:
        click.echo("interrupted; nothing was asked for", err=True)
        return _DETACHED
    if not ended:
        click.echo("detached; the request stands. The same command again follows it.", err=True)
        return _DETACHED
    return 1 if failed else 0
