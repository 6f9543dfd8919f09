"""`fairlead agent` as a Windows service, and its commands `install-service` and `remove-service`."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.base import logs
from kube_fairlead.cli import failures
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.agent.windows.service import Service

__all__ = ["IS_WINDOWS", "data_folder", "install_service", "remove_service", "running"]

IS_WINDOWS = sys.platform == "win32"
_NAME = "fairlead-agent"
_RUNTIME = "containerd"

_log = logs.get_logger(__name__)


def data_folder(invocation: Invocation) -> pathlib.Path:
    """The folder of Fairlead's data on Windows."""
    return pathlib.Path(invocation.environment.get("ProgramData") or r"C:\ProgramData") / "fairlead"


@contextlib.contextmanager
def running(*, wanted: bool, accepts_preshutdown: bool) -> Iterator[Service | None]:
    """Run as a Windows service while the block lasts; None if Windows did not start this process as a service.

    A failure in the block becomes the exit code of the service.
    """
    service = _started(accepts_preshutdown=accepts_preshutdown) if wanted else None
    if service is None:
        yield None
        return
    try:
        yield service
    except BaseException as failure:
        _log.error("agent stops after a failure", error=failures.report(failure))
        service.finish(failures.exit_code(failure))
        raise
    finally:
        service.finish()
        service.join()


def _started(*, accepts_preshutdown: bool) -> Service | None:
    _need_windows("--windows-service")
    from kube_fairlead.agent.windows.service import NotAService, Service, WindowsCalls
    from kube_fairlead.base.clock import RealClock

    service = Service(WindowsCalls(), RealClock(), accepts_preshutdown=accepts_preshutdown)
    try:
        service.start()
    except NotAService:
        return None
    return service


def _need_windows(what: str) -> None:
    if not IS_WINDOWS:
        raise click.UsageError(f"{what} works on Windows only; on Linux, run the agent as a systemd unit or in a pod")


@click.command(
    "install-service",
    hidden=not IS_WINDOWS,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.option("--name", default=_NAME, show_default=True, help="Name of the service.")
@click.option(
    "--depends-on",
    multiple=True,
    metavar="SERVICE",
    help="Service that the agent needs. At a shutdown, Windows stops the agent before that service. May be repeated.  "
    "[default: containerd, if that service exists]",
)
@click.option("--start/--no-start", default=True, show_default=True, help="Start the service now.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[AGENT FLAGS]...")
@click.pass_context
def install_service(
    ctx: click.Context, /, name: str, depends_on: Sequence[str], flags: Sequence[str], *, start: bool
) -> None:
    """Install the agent as a Windows service that starts with the machine, with these flags of `fairlead agent`.

    Windows announces shutdowns to services only. Run this as an administrator.
    """
    _need_windows("install-service")
    from kube_fairlead.agent.windows.folders import protect
    from kube_fairlead.agent.windows.scm import NewService, ServiceManager

    _check_flags(ctx, flags)
    protect(data_folder(ctx.ensure_object(Invocation)))
    manager = ServiceManager()
    if not depends_on and manager.facts(_RUNTIME) is not None:
        depends_on = [_RUNTIME]
    command = [sys.executable, "-m", "kube_fairlead.cli", "agent", "--windows-service", *flags]
    problems = manager.create(
        NewService(
            name=name,
            # Display names of services must be unique.
            display_name="Fairlead node agent" if name == _NAME else f"Fairlead node agent ({name})",
            description="Terminates the pods of this Kubernetes node, in order and in time, before the machine shuts "
            "down.",
            command_line=subprocess.list2cmdline(command),
            dependencies=depends_on,
        )
    )
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)
    click.echo(f"service {name} created" + (f"; it depends on {', '.join(depends_on)}" if depends_on else ""))
    if start:
        manager.start(name)
        click.echo(f"service {name} started")


@click.command("remove-service", hidden=not IS_WINDOWS)
@click.option("--name", default=_NAME, show_default=True, help="Name of the service.")
def remove_service(name: str) -> None:
    """Stop and remove the service. Pods continue to run, and the files of the agent stay."""
    _need_windows("remove-service")
    from kube_fairlead.agent.windows.scm import ServiceManager

    manager = ServiceManager()
    manager.stop(name)
    manager.delete(name)
    click.echo(f"service {name} removed")


def _check_flags(ctx: click.Context, flags: Sequence[str]) -> None:
    """Reject wrong flags now: a service that cannot start reports it only in its log."""
    if ctx.parent is None:
        raise click.UsageError("install-service is a command of fairlead agent")
    agent = ctx.parent.command
    for early in agent.params:
        if ctx.parent.get_parameter_source(early.name or "") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{early.opts[0]} must come after install-service, to be a flag of the service")
    with agent.make_context("agent", list(flags), parent=ctx.parent.parent, obj=ctx.obj) as parsed:
        if parsed.protected_args or parsed.args:
            raise click.UsageError(f"fairlead agent takes no argument {(*parsed.protected_args, *parsed.args)[0]!r}")
        for parameter, value in parsed.params.items():
            _check_absolute(parameter, value, parsed)
        if parsed.params["kubeconfig"] is None:
            click.echo(
                "Warning: the service runs as LocalSystem; without --kubeconfig it finds a cluster only if "
                "KUBECONFIG is set for the whole machine",
                err=True,
            )


def _check_absolute(parameter: str, value: Any, parsed: click.Context) -> None:
    given = parsed.get_parameter_source(parameter) is click.core.ParameterSource.COMMANDLINE
    if given and isinstance(value, pathlib.Path) and not value.is_absolute():
        flag = f"--{parameter.replace('_', '-')}"
        raise click.UsageError(
            f"{flag} {value} must be an absolute path: the working directory of a service is a system folder"
        )
