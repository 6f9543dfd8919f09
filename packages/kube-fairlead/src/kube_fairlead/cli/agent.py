"""`fairlead agent`: the agent of one node as a process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
import socket
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.api import names
from kube_fairlead.base import gates, logs, process
from kube_fairlead.cli import manager_flags, options, values, windows_service
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.agent.launch import LaunchSettings
    from kube_fairlead.agent.shutdown.assembly import ShutdownSettings
    from kube_fairlead.agent.windows.service import Service
    from kube_fairlead.api.scheme import Scheme
    from kube_fairlead.client import Client

__all__ = ["command"]

_IS_WINDOWS = windows_service.IS_WINDOWS

_log = logs.get_logger(__name__)


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    # As the kubelet: the host's name in lower case.
    name = value or socket.gethostname().lower()
    if problems := names.dns1123_subdomain(name):
        raise click.BadParameter(f"{name!r} is no node's name: {'; '.join(problems)}", ctx, parameter)
    return name


@click.group("agent", invoke_without_command=True, subcommand_metavar="[COMMAND]" if _IS_WINDOWS else "")
@click.option("--kubeconfig", type=values.FILE, help="The kubeconfig [default: the one that kubectl would use].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
@click.option("--node-name", callback=_node_name, help="The node to look after [default: this host's name].")
@click.option(
    "--registry-dir",
    type=values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=manager_flags.socket_folder,
    hidden=_IS_WINDOWS,  # it has no sockets that drivers could register by
    help="Where drivers put their registration sockets.",
)
@click.option(
    "--state-dir",
    type=values.FOLDER,
    help="Where the agent keeps its name [default: "
    + (r"%ProgramData%\fairlead" if _IS_WINDOWS else "beside the registry")
    + "].",
)
@click.option(
    "--driver-wait-timeout",
    default="5m",
    show_default=True,
    callback=options.duration,
    help="How long an event may wait for a driver that is missing or does not answer before it fails.",
)
@click.option(
    "--driver-lost-timeout",
    default="10m",
    show_default=True,
    callback=options.duration,
    help="How long a claimed event without an SLA waits for a driver that is out of reach before it fails.",
)
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=manager_flags.duration_or_zero,
    help="How long finished LifecycleEvents are kept. Give controller-manager the same: its event-gc deletes what is "
    "ten minutes past its own.",
)
@values.discovered_group
@manager_flags.boolean(
    "--well-known-conditions",
    default=True,
    text="Also set the Node conditions that Kubernetes 1.37 knows, such as DrainInProgress.",
)
@manager_flags.boolean(
    "--hold-autoscalers",
    default=True,
    text="Tell Cluster Autoscaler and Karpenter to leave the node alone while it is in a transition.",
)
@click.option(
    "--config",
    type=values.FILE,
    help="How long pods get when the machine goes down: a file with the kubelet's three fields, or the kubelet's own.",
)
@click.option(
    "--shutdown-owner",
    type=click.Choice(["auto", "kubelet", "agent"]),
    default="auto",
    show_default=True,
    help="Who ends the pods then. auto: the kubelet where it is set up to, else the agent.",
)
@click.option(
    "--windows-service",
    is_flag=True,
    hidden=not _IS_WINDOWS,
    help="Run as the service that install-service makes. Only a service hears that the machine goes down.",
)
@click.option(
    "--log-file",
    type=values.NEW_FILE,
    help="Write log lines to this file"
    + (r" [default for a service: %ProgramData%\fairlead\agent.log]." if _IS_WINDOWS else "."),
)
@click.option("--platform", default="", callback=values.platform, help="Say on the Node that it runs on this cloud.")
@manager_flags.serving_flags()
@options.feature_gates
@options.logging
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Claim the lifecycle events of one node and have drivers carry them out; see its pods out when it goes down.

    One agent per node; a second one stands by. SIGTERM ends it at once: work under way is taken up by the next agent.
    """
    if ctx.invoked_subcommand is not None:
        return
    invocation = ctx.ensure_object(Invocation)
    _log_to_file(ctx, invocation, flags)
    hears = flags["feature_gates"].enabled(gates.WINDOWS_GRACEFUL_NODE_SHUTDOWN)
    # A service must answer its manager within moments, so that this comes before anything is read.
    with windows_service.begun(wanted=flags["windows_service"], hears_preshutdown=hears) as service:
        _run(invocation, flags, service)


command.add_command(windows_service.install_service)
command.add_command(windows_service.remove_service)


def _log_to_file(ctx: click.Context, invocation: Invocation, flags: dict[str, Any]) -> None:
    path: pathlib.Path | None = flags["log_file"]
    if path is None and flags["windows_service"] and _IS_WINDOWS:
        path = windows_service.data_folder(invocation) / "agent.log"
    if path is not None:
        from kube_fairlead.base.logfile import LogFile

        try:
            options.log_to(ctx, LogFile(path))
        except OSError as error:
            raise click.UsageError(f"--log-file: {path} cannot be written: {error.strerror or error}") from error


def _run(invocation: Invocation, flags: dict[str, Any], service: Service | None) -> None:
    from kube_fairlead.agent import launch
    from kube_fairlead.base.metrics import DiscardedMetrics, PrometheusMetrics
    from kube_fairlead.manager import GroupDiscovery

    metrics = PrometheusMetrics(process_metrics=True) if flags["secure_port"] else DiscardedMetrics()
    discovery = GroupDiscovery(flags["lifecycle_api_group"] or "")
    settings = dataclasses.replace(_settings(invocation, flags, service), discovery=discovery)

    async def run() -> None:
        async with _connect(invocation, flags, discovery.scheme) as client:
            await launch.serve(client, settings, metrics, lambda: _announce(settings))

    process.run(run if service is None else lambda: service.run(run))


def _settings(invocation: Invocation, flags: dict[str, Any], service: Service | None) -> LaunchSettings:
    from kube_fairlead.agent.launch import LaunchSettings
    from kube_fairlead.lifecycle.facts import Settings

    state = flags["state_dir"] or _state_folder(invocation, flags)
    if hasattr(socket, "AF_UNIX"):
        values.make_folder("--registry-dir", flags["registry_dir"])
    values.make_folder("--state-dir" if flags["state_dir"] else "--registry-dir", state)
    return LaunchSettings(
        node_name=flags["node_name"],
        registry=flags["registry_dir"] if hasattr(socket, "AF_UNIX") else None,
        state=state,
        settings=Settings(
            driver_wait=dt.timedelta(seconds=flags["driver_wait_timeout"]),
            driver_lost=dt.timedelta(seconds=flags["driver_lost_timeout"]),
            keep_finished=dt.timedelta(seconds=flags["finished_event_ttl"]),
            well_known_conditions=flags["well_known_conditions"],
            hold_autoscalers=flags["hold_autoscalers"],
        ),
        platform=flags["platform"],
        shutdown=_shutdown(invocation, flags, service),
        serving=manager_flags.serving_options(flags, lambda: _connect(invocation, flags)),
        gates=flags["feature_gates"],
    )


def _state_folder(invocation: Invocation, flags: dict[str, Any]) -> pathlib.Path:
    if _IS_WINDOWS:
        return windows_service.data_folder(invocation)
    folder: pathlib.Path = flags["registry_dir"].parent
    return folder


def _shutdown(invocation: Invocation, flags: dict[str, Any], service: Service | None) -> ShutdownSettings | None:
    """What is to be done about shutdowns; None when nothing is."""
    if flags["config"] is None:
        return None
    from kube_fairlead.agent.shutdown.assembly import ShutdownSettings, is_supported
    from kube_fairlead.agent.shutdown.configuration import read_config
    from kube_fairlead.lifecycle.shutdown_config import BadShutdownConfig

    try:
        config = read_config(flags["config"], gate_is_on=flags["feature_gates"].enabled(gates.GRACEFUL_NODE_SHUTDOWN))
    except BadShutdownConfig as error:
        raise click.UsageError(f"--config: {error}") from error
    if not config.shutdown.enabled:
        return None
    if not is_supported():
        raise click.UsageError(f"--config: {flags['config']} asks for graceful shutdowns, which need Linux or Windows")
    if _IS_WINDOWS and not _is_heard_on_windows(flags, service):
        return None
    return ShutdownSettings(
        config=config, environment=invocation.environment, owner=flags["shutdown_owner"], service=service
    )


def _is_heard_on_windows(flags: dict[str, Any], service: Service | None) -> bool:
    """Whether a shutdown can be heard; says why when it cannot."""
    if not flags["feature_gates"].enabled(gates.WINDOWS_GRACEFUL_NODE_SHUTDOWN):
        _log.info("WindowsGracefulNodeShutdown is off: shutdowns of this machine are not looked after")
    elif service is None:
        _log.warning(
            "this process is not a Windows service: shutdowns of this machine are not looked after; "
            "`fairlead agent install-service` makes it one"
        )
    else:
        return True
    return False


def _connect(invocation: Invocation, flags: dict[str, Any], scheme: Scheme | None = None) -> Client:
    from kube_fairlead import client

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component="fairlead-agent",
        environment=invocation.environment,
        scheme=scheme,
    )


def _announce(settings: LaunchSettings) -> None:
    drivers = "no drivers here" if settings.registry is None else f"drivers register in {settings.registry}"
    click.echo(f"fairlead agent looks after node {settings.node_name}; {drivers}")
