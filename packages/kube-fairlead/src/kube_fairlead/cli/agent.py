"""`fairlead agent`: runs the agent of one node. See `kube_fairlead.agent`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
import socket
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.api import names
from kube_fairlead.base import gates, logs, process
from kube_fairlead.cli import flag_values, manager_flags, shared_flags, windows_service
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
    # The kubelet has the same default: the host name in lower case.
    name = value or socket.gethostname().lower()
    if problems := names.dns1123_subdomain(name):
        raise click.BadParameter(f"{name!r} is not a valid node name: {'; '.join(problems)}", ctx, parameter)
    return name


@click.group("agent", invoke_without_command=True, subcommand_metavar="[COMMAND]" if _IS_WINDOWS else "")
@shared_flags.cluster
@click.option(
    "--node-name",
    callback=_node_name,
    help="Name of the Node object of this machine.  [default: the host name in lower case]",
)
@click.option(
    "--registry-dir",
    type=flag_values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=flag_values.socket_folder,
    hidden=_IS_WINDOWS,  # drivers register by unix sockets, which Python does not have there
    help="Folder in which drivers create their registration sockets.",
)
@click.option(
    "--state-dir",
    type=flag_values.FOLDER,
    help="Folder for the agent's state across restarts: its identity in the node's Lease, and a shutdown in progress.  "
    "[default: " + (r"%ProgramData%\fairlead" if _IS_WINDOWS else "the parent of --registry-dir") + "]",
)
@click.option(
    "--driver-wait-timeout",
    metavar="DURATION",
    default="5m",
    show_default=True,
    callback=flag_values.duration,
    help="How long a Pending event waits for a driver that is not registered or does not answer. After it, the event "
    "is set to Failed.",
)
@click.option(
    "--driver-lost-timeout",
    metavar="DURATION",
    default="10m",
    show_default=True,
    callback=flag_values.duration,
    help="How long a Claimed event without an SLA waits for an unreachable driver. After it, the event is set to "
    "Failed.",
)
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=flag_values.duration_or_zero,
    help="How long the agent keeps finished LifecycleEvents before it deletes them. Set the same value for "
    "controller-manager: its event-gc deletes them ten minutes after its own TTL.",
)
@shared_flags.discovered_group
@shared_flags.boolean(
    "--well-known-conditions",
    default=True,
    text="Also set the Node conditions of Kubernetes 1.37, such as DrainInProgress.",
)
@shared_flags.boolean(
    "--hold-autoscalers",
    default=True,
    text="Annotate the node during a transition so that Cluster Autoscaler and Karpenter do not remove it.",
)
@click.option(
    "--config",
    type=flag_values.FILE,
    help="Enable graceful node shutdown. A YAML file with the kubelet's fields shutdownGracePeriod, "
    "shutdownGracePeriodCriticalPods or shutdownGracePeriodByPodPriority; the kubelet's own configuration file works "
    "too.  [default: shutdowns are not handled]",
)
@click.option(
    "--shutdown-owner",
    type=click.Choice(["auto", "kubelet", "agent"]),
    default="auto",
    show_default=True,
    help="With --config: the process that terminates the pods when the machine shuts down. auto: the kubelet if its "
    "own graceful shutdown is configured, else the agent.",
)
@click.option(
    "--windows-service",
    is_flag=True,
    hidden=not _IS_WINDOWS,
    help="Run as the service that install-service creates. Windows announces shutdowns to services only.",
)
@click.option(
    "--log-file",
    type=flag_values.NEW_FILE,
    help="Write log lines to this file instead of standard error"
    + (r" [default for a service: %ProgramData%\fairlead\agent.log]." if _IS_WINDOWS else "."),
)
@click.option(
    "--platform",
    default="",
    callback=flag_values.platform,
    help="Annotate the Node with this platform, for cloud controller managers: the scheme of its providerID, such as "
    "aws.",
)
@manager_flags.serving_flags()
@shared_flags.feature_gates
@shared_flags.logging
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Claim the LifecycleEvents of one node and call drivers to carry them out.

    With --config, also terminate the node's pods in order before the machine shuts down. Run one agent per node; a
    second one waits for the node's Lease. SIGTERM stops the agent at once. The next agent resumes the claimed event.
    """
    if ctx.invoked_subcommand is not None:
        return
    invocation = ctx.ensure_object(Invocation)
    _log_to_file(ctx, invocation, flags)
    is_enabled = flags["feature_gates"].enabled(gates.WINDOWS_GRACEFUL_NODE_SHUTDOWN)
    # A service must answer the service control manager within seconds, so this comes before the files are read.
    with windows_service.running(wanted=flags["windows_service"], accepts_preshutdown=is_enabled) as service:
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
            shared_flags.log_to(ctx, LogFile(path))
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
        flag_values.make_folder("--registry-dir", flags["registry_dir"])
    flag_values.make_folder("--state-dir" if flags["state_dir"] else "--registry-dir", state)
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
    """The settings of graceful shutdown; None if shutdowns are not handled."""
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
        raise click.UsageError(
            f"--config: {flags['config']} enables graceful node shutdown, which needs Linux or Windows"
        )
    if _IS_WINDOWS and not _is_announced_on_windows(flags, service):
        return None
    return ShutdownSettings(
        config=config, environment=invocation.environment, owner=flags["shutdown_owner"], service=service
    )


def _is_announced_on_windows(flags: dict[str, Any], service: Service | None) -> bool:
    """Whether Windows announces shutdowns to this process; logs the reason if it does not."""
    if not flags["feature_gates"].enabled(gates.WINDOWS_GRACEFUL_NODE_SHUTDOWN):
        _log.info("WindowsGracefulNodeShutdown is disabled: the agent does not handle shutdowns of this machine")
    elif service is None:
        _log.warning(
            "this process is not a Windows service: the agent does not handle shutdowns of this machine; "
            "`fairlead agent install-service` creates the service"
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
    drivers = "it has no drivers" if settings.registry is None else f"drivers register in {settings.registry}"
    click.echo(f"fairlead agent runs for node {settings.node_name}; {drivers}")
