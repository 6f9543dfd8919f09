"""`fairlead maintain`: the whole way, from DrainStarted to MaintenanceComplete, with the work itself in between."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import managing, process, values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import flags as node_flags

if TYPE_CHECKING:
    from kube_fairlead.base.environment import Environment
    from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["command"]

_DETACHED = 130


class _WithCommand(node_flags.GoCommand):
    """What comes after `--` is not ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the command aside."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[__name__] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show that a command may follow."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command("maintain", cls=_WithCommand)
@node_flags.node_choice
@node_flags.limits
@node_flags.drain_flags()
@click.option(
    "--transition",
    default="node-drain",
    show_default=True,
    callback=values.subdomain,
    help="The LifecycleTransition that drains.",
)
@click.option(
    "--command-timeout",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=managing.duration_or_zero,
    help="How long the COMMAND may take before it is ended and counts as failed; zero: for ever.",
)
@click.option(
    "--min-ready",
    metavar="DURATION",
    default="10s",
    show_default=True,
    callback=managing.duration_or_zero,
    help="How long a node must be Ready without a break after the COMMAND before it is put back into service.",
)
@click.option(
    "--ready-timeout",
    metavar="DURATION",
    default="15m",
    show_default=True,
    callback=managing.duration_or_zero,
    help="How long that may take before the node counts as failed and stays drained; zero: for ever.",
)
@node_flags.access
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Drain nodes, do the maintenance, and put them back into service.

    The maintenance is the COMMAND after --, run once for each node with {} replaced by its name and FAIRLEAD_NODE set;
    without a command it waits for Enter. Then the node must be Ready for --min-ready before it is back in service. When
    any of it fails, the node stays drained and no further node is begun.

    Example: fairlead maintain -l pool=web --ignore-daemonsets --per-zone=1 -- ssh {} sudo apt-get upgrade -y
    """
    from kube_fairlead.cli.nodes import maintaining

    invocation = ctx.find_object(Invocation)
    if invocation is None:
        raise RuntimeError("this command runs under `fairlead` only")
    node_flags.check_choice(flags)
    words: tuple[str, ...] = ctx.meta.get(__name__, ())
    if not words and not sys.stdin.isatty():
        raise click.UsageError("without a terminal to wait at, say what to do: fairlead maintain NODE -- COMMAND")
    _check_program(words, invocation.environment)
    options: DrainOptions = node_flags.drain_options(flags)
    results: dict[str, bool] = {}
    progress = maintaining.Progress()
    ended = False

    async def run() -> None:
        nonlocal ended
        async with node_flags.connect(invocation, flags, "fairlead-maintain") as client:
            plan = maintaining.MaintenancePlan(
                words=words,
                options=options,
                drain=flags["transition"],
                max_unavailable=flags["max_unavailable"],
                per_zone=flags["per_zone"],
                environment=invocation.environment,
                command_timeout=dt.timedelta(seconds=flags["command_timeout"]),
                min_ready=dt.timedelta(seconds=flags["min_ready"]),
                ready_timeout=dt.timedelta(seconds=flags["ready_timeout"]),
            )
            results.update(await maintaining.maintain(client, plan, flags["nodes"], flags["selector"], progress))
        ended = True

    process.run(run)
    if not ended:
        click.echo("interrupted", err=True)
        for line in progress.left():
            click.echo(line, err=True)
        return _DETACHED
    return 0 if all(results.values()) else 1


def _check_program(words: tuple[str, ...], environment: Environment) -> None:
    """Find out before a node is drained for nothing."""
    if words and "{}" not in words[0] and shutil.which(words[0], path=environment.get("PATH")) is None:
        raise click.UsageError(f"the command after -- cannot be run: there is no program {words[0]!r}")
