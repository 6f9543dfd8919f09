"""`fairlead maintain`: drains nodes, runs a command for each, and uncordons them. See `kube_fairlead.operations`."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.base import process
from kube_fairlead.cli import flag_values
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.nodes import node_flags

if TYPE_CHECKING:
    from kube_fairlead.base.environment import Environment
    from kube_fairlead.cli.nodes.maintenance_command import MaintenanceCommand
    from kube_fairlead.cli.nodes.progress_printer import MaintenancePrinter
    from kube_fairlead.operations import Outcome

__all__ = ["command"]

_DETACHED = 130


class _WithCommand(node_flags.GoCommand):
    """A command whose arguments after `--` are the user's own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments after `--` for the command, and parse the rest."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[__name__] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the command."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command("maintain", cls=_WithCommand)
@node_flags.node_choice
@node_flags.limits
@node_flags.drain_flags()
@click.option(
    "--transition",
    default="node-drain",
    show_default=True,
    callback=flag_values.subdomain,
    help="LifecycleTransition that drains the node.",
)
@click.option(
    "--command-timeout",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=flag_values.duration_or_zero,
    help="Time limit of the COMMAND. After it, the COMMAND is terminated and the node counts as failed; 0s: no limit.",
)
@click.option(
    "--min-ready",
    metavar="DURATION",
    default="10s",
    show_default=True,
    callback=flag_values.duration_or_zero,
    help="How long a node must be Ready without interruption after the COMMAND before it is uncordoned.",
)
@click.option(
    "--ready-timeout",
    metavar="DURATION",
    default="15m",
    show_default=True,
    callback=flag_values.duration_or_zero,
    help="Time limit for reaching --min-ready. After it, the node counts as failed and stays drained; 0s: no limit.",
)
@node_flags.access
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Drain nodes, run a command for each, and uncordon them.

    The COMMAND after -- runs once for each drained node, with {} replaced by the node's name and FAIRLEAD_NODE set to
    it. Without a COMMAND, it waits for Enter. Then the node must be Ready for --min-ready before it is uncordoned.
    After a failure, the node stays drained and no further node is started.

    Example: fairlead maintain -l pool=web --ignore-daemonsets --per-zone=1 -- ssh {} sudo apt-get upgrade -y
    """
    invocation = ctx.find_object(Invocation)
    if invocation is None:
        raise RuntimeError("this command runs under `fairlead` only")
    node_flags.check_choice(flags)
    argv: tuple[str, ...] = ctx.meta.get(__name__, ())
    if not argv and not sys.stdin.isatty():
        raise click.UsageError(
            "a COMMAND is required, because standard input is not a terminal: fairlead maintain NODE -- COMMAND"
        )
    _check_program(argv, invocation.environment)
    run = _Run(invocation, flags, argv)
    process.run(run.run)
    return run.exit_code()


class _Run:
    """One run of the command."""

    def __init__(self, invocation: Invocation, flags: dict[str, Any], argv: tuple[str, ...]) -> None:
        self._invocation = invocation
        self._flags = flags
        self._argv = argv
        self._options = node_flags.drain_options(flags)
        self._outcomes: dict[str, Outcome] | None = None
        self._printer: MaintenancePrinter | None = None
        self._command: MaintenanceCommand | None = None

    async def run(self) -> None:
        from kube_fairlead import operations
        from kube_fairlead.cli.nodes.console import PlainConsole
        from kube_fairlead.cli.nodes.maintenance_command import MaintenanceCommand, TerminalPrompt
        from kube_fairlead.cli.nodes.progress_printer import MaintenancePrinter

        flags = self._flags
        console = PlainConsole()  # the command writes to the same terminal
        async with node_flags.connect(self._invocation, flags, "fairlead-maintain") as client:
            nodes = await operations.select_nodes(client, flags["nodes"], selector=flags["selector"])
            if not nodes:
                self._outcomes = {}
                return
            self._printer = MaintenancePrinter(console, [node.name for node in nodes])
            if self._argv:
                self._command = MaintenanceCommand(
                    self._argv,
                    self._invocation.environment.as_dict(),
                    client.clock,
                    console,
                    timeout_seconds=flags["command_timeout"],
                )
            request = operations.MaintenanceRequest(
                options=self._options,
                transition=flags["transition"],
                limits=operations.Limits(max_unavailable=flags["max_unavailable"], per_zone=flags["per_zone"]),
                min_ready=dt.timedelta(seconds=flags["min_ready"]),
                ready_timeout=dt.timedelta(seconds=flags["ready_timeout"]),
            )
            work = self._command or TerminalPrompt(console)
            self._outcomes = await operations.maintain(client, nodes, work, request, report=self._printer)

    def exit_code(self) -> int:
        """The exit code. After an interruption, also print the state of the nodes."""
        if self._outcomes is not None:
            return int(any(outcome.failed for outcome in self._outcomes.values()))
        click.echo("interrupted", err=True)
        for node, how in self._command.interrupted.items() if self._command is not None else ():
            click.echo(f"node/{node}: {how}; processes that it started on other machines may still run", err=True)
        for line in self._printer.remains() if self._printer is not None else ():
            click.echo(line, err=True)
        return _DETACHED


def _check_program(argv: tuple[str, ...], environment: Environment) -> None:
    """Reject a program that does not exist, before a node is drained."""
    if argv and "{}" not in argv[0] and shutil.which(argv[0], path=environment.get("PATH")) is None:
        raise click.UsageError(f"the COMMAND after -- cannot run: program {argv[0]!r} not found")
