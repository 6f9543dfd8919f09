"""`fairlead hold`: a parent for an agent that is no systemd unit."""

from __future__ import annotations

import pathlib
import sys

import click

from kube_fairlead.base import process
from kube_fairlead.cli import options, values
from kube_fairlead.cli.invocation import Invocation

__all__ = ["command"]


@click.command("hold", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--socket",
    "socket_path",
    type=values.NEW_FILE,
    default=pathlib.Path("/var/lib/fairlead/lock.sock"),
    show_default=True,
    help="Where the agent hands its lock over.",
)
@options.logging
@click.argument("words", metavar="agent [OPTION]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def command(invocation: Invocation, /, socket_path: pathlib.Path, words: tuple[str, ...]) -> int:
    """Keep the shutdown lock of an agent, and start it again when it is killed.

    For containers: `fairlead hold agent --config=...`. A systemd unit has the same from its file descriptor store.
    """
    from kube_fairlead.agent.shutdown.lock_supervisor import LockSupervisor
    from kube_fairlead.base.clock import RealClock

    if sys.platform != "linux":
        raise click.UsageError("a lock that can be kept is logind's, which needs Linux")
    program = [sys.executable, "-m", "kube_fairlead.cli", *words]
    holder = LockSupervisor(program, invocation.environment.as_dict(), RealClock(), socket_path=socket_path)
    codes: list[int] = []

    async def run() -> None:
        codes.append(await holder.run())

    process.run(run)
    return abs(codes[0]) if codes else 0
