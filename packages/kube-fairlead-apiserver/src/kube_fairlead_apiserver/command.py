"""`fairlead apiserver`: the embedded control plane as a process, and its backups."""

from __future__ import annotations

import gc
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.api import names
from kube_fairlead.base import process
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead_apiserver.launch import RunningServer
    from kube_fairlead_apiserver.settings import Settings

__all__ = ["backup", "command", "default_data_folder", "restore"]


def default_data_folder(environment: Environment) -> pathlib.Path:
    """The default data directory of a server: in the user's data folder."""
    base = environment.get("XDG_DATA_HOME")
    home = pathlib.Path(base) if base else environment.home() / ".local" / "share"
    return home / "fairlead" / "apiserver"


def _names(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if names.ip_address(name) and names.dns1123_subdomain(name.removeprefix("*.")):
            raise click.BadParameter(f"{name!r} is neither an IP address nor a host name", ctx, parameter)
    return value


@click.group("apiserver", invoke_without_command=True)
@click.option(
    "--data-dir",
    type=flag_values.PATH,
    help="Data directory: database, keys and certificates.  [default: $XDG_DATA_HOME/fairlead/apiserver, or "
    "~/.local/share/fairlead/apiserver]",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    callback=flag_values.bind_address,
    help="Address to listen on.",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option(
    "--kubeconfig-out",
    type=flag_values.PATH,
    help="Path of the administrator's kubeconfig.  [default: admin.kubeconfig in --data-dir]",
)
@click.option(
    "--client-ca-file",
    type=flag_values.FILE,
    callback=flag_values.pem_certificates,
    help="Additional CA whose client certificates are accepted.",
)
@click.option(
    "--token-auth-file",
    type=flag_values.FILE,
    help='File of bearer tokens, one token,user,uid[,"group1,group2"] per line.',
)
@click.option(
    "--audit-log-path",
    default="",
    help="Audit log file, one line per request; - is standard output.  [default: no audit log]",
)
@click.option(
    "--tls-san",
    multiple=True,
    callback=_names,
    help="Additional host name or IP address of the serving certificate; repeatable.",
)
@click.option("--in-memory", is_flag=True, help="Store objects in memory only; they are lost when the process exits.")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help="Built-in controllers to run, as in kube-controller-manager: NAME, -NAME to disable, * for all.",
)
@click.option(
    "--compaction-interval",
    "--etcd-compaction-interval",
    metavar="DURATION",
    default="5m",
    show_default=True,
    callback=flag_values.duration,
    help="Compaction interval; each pass drops revisions older than the previous pass.",
)
@click.option(
    "--accept-data-loss-since",
    type=click.IntRange(min=0),
    metavar="REVISION",
    help="Start although acknowledged writes after REVISION are lost; the failed start prints REVISION.",
)
@click.option(
    "--enable-priority-and-fairness",
    type=click.BOOL,
    default=True,
    show_default=True,
    help="Schedule requests fairly between users and enforce the three limits below. false: no limits, no fairness.",
)
@click.option(
    "--max-requests-inflight",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    help="Maximum number of read-only requests in flight; one user gets at most half of it. 0: no limit.",
)
@click.option(
    "--max-mutating-requests-inflight",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Maximum number of mutating requests in flight; one user gets at most half of it. 0: no limit.",
)
@click.option(
    "--request-queue-timeout",
    metavar="DURATION",
    default="5s",
    show_default=True,
    callback=flag_values.duration,
    help="Maximum time that a request waits in its user's queue before it is rejected with 429.",
)
@shared_flags.lifecycle_group
@click.option("--permit-port-sharing", is_flag=True, help="Set SO_REUSEPORT on the listening socket.")
@shared_flags.feature_gates
@shared_flags.logging
@click.pass_context
def command(
    context: click.Context,
    *,
    data_dir: pathlib.Path | None,
    bind_address: str,
    secure_port: int,
    kubeconfig_out: pathlib.Path | None,
    client_ca_file: pathlib.Path | None,
    token_auth_file: pathlib.Path | None,
    audit_log_path: str,
    tls_san: tuple[str, ...],
    in_memory: bool,
    controllers: str,
    compaction_interval: float,
    accept_data_loss_since: int | None,
    enable_priority_and_fairness: bool,
    max_requests_inflight: int,
    max_mutating_requests_inflight: int,
    request_queue_timeout: float,
    lifecycle_api_group: str,
    permit_port_sharing: bool,
    feature_gates: FeatureGates,
) -> None:
    """Serve the Kubernetes API from one process, over SQLite.

    Prints the address and the KUBECONFIG for kubectl, then runs until it is interrupted (Ctrl-C).
    """
    invocation: Invocation = context.find_root().obj
    folder = data_dir or default_data_folder(invocation.environment)
    context.obj = folder
    if context.invoked_subcommand is not None:
        return
    from kube_fairlead_apiserver.settings import Settings

    settings = Settings(
        data_folder=folder,
        bind_address=bind_address,
        port=secure_port,
        kubeconfig_out=kubeconfig_out,
        client_ca_file=client_ca_file,
        token_auth_file=token_auth_file,
        audit_log_path=audit_log_path,
        share_port=permit_port_sharing,
        in_memory=in_memory,
        extra_names=tls_san,
        gates=feature_gates,
        controllers=[name.strip() for name in controllers.split(",") if name.strip()],
        compaction_seconds=compaction_interval,
        accept_loss_since=accept_data_loss_since,
        share_between_users=enable_priority_and_fairness,
        max_requests_inflight=max_requests_inflight,
        max_mutating_requests_inflight=max_mutating_requests_inflight,
        request_queue_seconds=request_queue_timeout,
        lifecycle_group=lifecycle_api_group,
    )
    settings.check()
    _run(settings)


def _run(settings: Settings) -> None:
    _tune_interpreter()
    from kube_fairlead.base import clock, randomness
    from kube_fairlead_apiserver.security.pki.keyring import make_meanwhile, serving_names

    now, chance = clock.RealClock(), randomness.SystemRandomness()
    names = serving_names(settings.bind_address, settings.extra_names)
    wait_for_keys = make_meanwhile(settings.data_folder, names, now, chance)
    from kube_fairlead.base import identity, metrics
    from kube_fairlead_apiserver import launch, server

    wait_for_keys()
    dependencies = server.Dependencies(
        now, chance, identity.RandomIds(chance), metrics.PrometheusMetrics(process_metrics=True)
    )
    process.run(
        lambda: launch.serve(settings, dependencies, lambda running: _announce(running, settings)),
        loop_factory=_loop_factory(),
    )


def _tune_interpreter() -> None:
    """Tune the interpreter for a server: requests create few cycles, and the disk thread must not wait long."""
    gc.disable()  # until the server is ready: loading modules creates hardly any garbage
    # Small steps: inspecting an object takes a fraction of a microsecond, during which no client is served. A large
    # request creates a million objects, which are inspected 20,000 at a time. All objects are inspected only when
    # memory is returned to the system (`base.memory`).
    gc.set_threshold(2_000, 10, 100_000)
    # The disk's thread asks for the interpreter after each system call. While a user floods the server, the event loop
    # never waits by itself, and releases the interpreter after this time.
    sys.setswitchinterval(0.00002)


def _announce(running: RunningServer, settings: Settings) -> None:
    gc.freeze()  # the objects of startup live as long as the process, so the collector skips them
    gc.enable()
    click.echo(f"fairlead apiserver is ready on {running.url}")
    click.echo(f"  export KUBECONFIG={running.kubeconfig}")
    folder = settings.data_folder
    kept = (
        f"keys are kept in {folder}, its objects in memory only" if settings.in_memory else f"data is kept in {folder}"
    )
    click.echo(f"  its {kept}")


def _loop_factory() -> Callable[[], Any] | None:
    try:
        import uvloop
    except ImportError:  # Windows has none; asyncio's own loop serves there
        return None
    factory: Callable[[], Any] = uvloop.new_event_loop
    return factory


@command.command("backup")
@click.argument("file", type=flag_values.PATH)
@click.pass_obj
def backup(folder: pathlib.Path, file: pathlib.Path) -> None:
    """Copy the objects, keys and certificates of a server, running or not, into FILE."""
    from kube_fairlead_apiserver.backup import back_up

    back_up(folder, file)
    click.echo(f"{file} holds a copy of {folder}; it has the server's keys in it")


@command.command("restore")
@click.argument("file", type=flag_values.FILE)
@click.pass_obj
def restore(folder: pathlib.Path, file: pathlib.Path) -> None:
    """Restore a backup FILE into an empty data folder. The server must not run."""
    from kube_fairlead.base.clock import RealClock
    from kube_fairlead_apiserver import backup as backups

    with_keys = backups.restore(file, folder, RealClock())
    keys = "its keys as well" if with_keys else "the keys of the folder are kept"
    click.echo(f"{folder} holds what {file} held, {keys}; start the server with --data-dir {folder}")
