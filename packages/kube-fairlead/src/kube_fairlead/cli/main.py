"""The program: finds the command, runs it, and converts its result to an exit code."""

from __future__ import annotations

import gc
import importlib
import os
import pathlib
import sys
from collections.abc import Sequence

import click

import kube_fairlead
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import commands, failures
from kube_fairlead.cli.invocation import Invocation

__all__ = ["main", "program"]

_INTERRUPTED = 130  # the exit code that a shell reports after Ctrl-C


class _LazyGroup(click.Group):
    """A group of the commands of the table and of entry points. It imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for name, _ in _summaries()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = next((entry for entry in commands.COMMANDS if entry.name == cmd_name), None)
        if entry is not None and entry.module:
            command = importlib.import_module(entry.module).command
        elif point := commands.installed().get(cmd_name):
            command = point.load()
        elif entry is not None:
            raise click.UsageError(
                f"the command {entry.name} is in the package {entry.distribution}, which is not installed here; "
                f"run: pip install {entry.distribution}"
            )
        else:
            return None
        gc.enable()  # disabled while the program was loaded
        if not isinstance(command, click.Command):
            raise TypeError(f"the command {cmd_name} is a {type(command).__name__}, not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(_summaries())


def _summaries() -> list[tuple[str, str]]:
    points = commands.installed()
    known = {entry.name for entry in commands.COMMANDS}
    lines = [
        (entry.name, entry.summary if entry.module or entry.name in points else f"(pip install {entry.distribution})")
        for entry in commands.COMMANDS
    ]
    for name, point in sorted(points.items()):
        if name not in known:
            lines.append((name, f"Added by the package {point.distribution}."))
    return lines


@click.command(
    cls=_LazyGroup,
    name="fairlead",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(kube_fairlead.__version__, message="fairlead %(version)s")
@click.option("--debug", is_flag=True, help="Print the traceback of a failure. FAIRLEAD_DEBUG=1 does the same.")
@click.pass_obj
def program(invocation: Invocation, *, debug: bool) -> None:
    """Drain, maintain and shut down Kubernetes nodes gracefully, hand over leadership, run several clouds in a cluster.

    A user requests an operation on a node as a LifecycleEvent. The agent on the node claims it, and a driver, such as
    the drain driver, carries it out. `fairlead COMMAND --help` describes a command.
    """
    invocation.debug = invocation.debug or debug


def main(arguments: Sequence[str] | None = None, *, environment: Environment | None = None) -> int:
    """Run the program once.

    Args:
        arguments: the command line after the program's name; that of the process unless given.
        environment: the environment variables; those of the process unless given.

    Returns:
        0 success, 1 failure, 2 usage error, 130 interrupted.
    """
    environment = environment or Environment.of_process()
    invocation = Invocation(environment)
    try:
        invocation.debug = _debug_wanted(environment)
        result = program.main(
            args=list(sys.argv[1:] if arguments is None else arguments),
            prog_name=_program_name(sys.argv[0]),
            standalone_mode=False,
            obj=invocation,
        )
        if sys.stdout is not None:  # a Windows service has none
            sys.stdout.flush()
    except SystemExit as end:
        return _code_of(end)
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return failures.EXIT_FAILED
    except Exception as failure:  # noqa: BLE001 - the one place where every failure becomes an exit code
        return _report(failure, debug=invocation.debug)
    return result if isinstance(result, int) else 0


def _debug_wanted(environment: Environment) -> bool:
    try:
        return environment.flag("FAIRLEAD_DEBUG")
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _report(failure: Exception, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(failure)
    elif isinstance(failure, click.UsageError):
        # Print the usage of the command, then the error in one line; a parser's error may have several lines.
        click.UsageError(" ".join(failure.format_message().split()), failure.ctx).show()
    else:
        click.echo(failures.report(failure), err=True)
    return failures.exit_code(failure)


def _stop_writing() -> None:
    # The reader of the output, such as `head`, has closed the pipe. Without this, Python fails again when it exits.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _code_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    click.echo(end.code, err=True)
    return failures.EXIT_FAILED


def _program_name(path: str) -> str:
    # kubectl runs the plugin `kubectl-x` for `kubectl x`; help must show what the user typed.
    return "kubectl fairlead" if pathlib.PurePath(path).name.startswith("kubectl-fairlead") else "fairlead"
