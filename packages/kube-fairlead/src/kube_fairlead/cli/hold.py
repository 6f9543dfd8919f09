"""`fairlead hold`: the parent process of an agent that is not a systemd unit."""

from __future__ import annotations

import pathlib
import sys

import click

from kube_fairlead.base import process
from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

__all__ = ["command"]


@click.command("hold", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--socket",
    "socket_path",
    type=flag_values.NEW_FILE,
    default=pathlib.Path("/var/lib/fairlead/lock.sock"),
    show_default=True,
    help="Unix socket by which the agent passes its lock to this process; created at start.",
)
@shared_flags.logging
@click.argument("argv", metavar="agent [OPTION]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def command(invocation: Invocation, /, socket_path: pathlib.Path, argv: tuple[str, ...]) -> int:
    """Run an agent, hold its shutdown inhibitor lock, and restart it if it is killed.

    The agent takes a delay inhibitor lock of systemd-logind, so that the machine waits for its pods before it powers
    off. If the agent is killed, this process keeps the lock and restarts the agent, which resumes the shutdown. For
    agents in containers: `fairlead hold agent --config=...`. An agent that is a systemd unit does not need it, because
    systemd keeps the lock.
    """
    from kube_fairlead.agent.shutdown.lock_supervisor import LockSupervisor
    from kube_fairlead.base.clock import RealClock

    if sys.platform != "linux":
        raise click.UsageError("inhibitor locks of systemd-logind exist on Linux only")
    program = [sys.executable, "-m", "kube_fairlead.cli", *argv]
    supervisor = LockSupervisor(program, invocation.environment.as_dict(), RealClock(), socket_path=socket_path)
    codes: list[int] = []

    async def run() -> None:
        codes.append(await supervisor.run())

    process.run(run)
    return abs(codes[0]) if codes else 0
