"""`fairlead agent`: the agent of one node as a process."""

from __future__ import annotations

import datetime as dt
import pathlib
import socket
from typing import TYPE_CHECKING, Any

import click

from fairlead.api import names
from fairlead.cli import managing, options, process
from fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from fairlead.agent.launch import LaunchSettings
    from fairlead.agent.shutdown.launch import ShutdownSettings
    from fairlead.client import Client

__all__ = ["command"]

_FILE = click.Path(path_type=pathlib.Path, exists=True, dir_okay=False)
_FOLDER = click.Path(path_type=pathlib.Path, file_okay=False)


def _node_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    # As the kubelet: the host's name in lower case.
    name = value or socket.gethostname().lower()
    if problems := names.dns1123_subdomain(name):
        raise click.BadParameter(f"{name!r} is no node's name: {'; '.join(problems)}", ctx, parameter)
    return name


@click.command("agent")
@click.option("--kubeconfig", type=_FILE, help="How to reach the API server [default: as kubectl finds it].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
@click.option("--node-name", callback=_node_name, help="The node to look after [default: this host's name].")
@click.option(
    "--registry-dir",
    type=_FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=managing.socket_folder,
    help="Where drivers put their registration sockets.",
)
@click.option("--state-dir", type=_FOLDER, help="Where the agent keeps its name [default: beside the registry].")
@click.option(
    "--driver-wait-timeout",
    default="5m",
    show_default=True,
    callback=options.duration,
    help="How long an event may wait for a driver before it fails.",
)
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=managing.duration_or_zero,
    help="How long finished LifecycleEvents are kept.",
)
@click.option(
    "--lifecycle-api-group",
    default="lifecycle.k8s.io",
    show_default=True,
    help="The API group of LifecycleTransition and LifecycleEvent; lifecycle.fairlead.dev is the alternative.",
)
@managing.boolean(
    "--well-known-conditions",
    default=True,
    text="Also set the Node conditions that Kubernetes 1.37 knows, such as DrainInProgress.",
)
@managing.boolean(
    "--hold-autoscalers",
    default=True,
    text="Tell Cluster Autoscaler and Karpenter to leave the node alone while it is in a transition.",
)
@click.option(
    "--config",
    type=_FILE,
    help="How long pods get when the machine goes down: a file with the kubelet's three fields, or the kubelet's own.",
)
@click.option(
    "--shutdown-owner",
    type=click.Choice(["auto", "kubelet", "agent"]),
    default="auto",
    show_default=True,
    help="Who ends the pods then. auto: the kubelet where it is set up to, else the agent.",
)
@click.option("--platform", default="", help="Say on the Node that it runs on this cloud.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Where health and metrics are served.")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port for health and metrics; 0: none.",
)
@options.feature_gates
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Claim the lifecycle events of one node and have drivers carry them out; see its pods out when it goes down.

    One agent per node; a second one stands by. SIGTERM ends it at once: work under way is taken up by the next agent.
    """
    from fairlead.agent import launch
    from fairlead.base.metrics import DiscardedMetrics, PrometheusMetrics

    metrics = PrometheusMetrics(process_metrics=True) if flags["secure_port"] else DiscardedMetrics()
    settings = _settings(invocation, flags)

    async def run() -> None:
        async with _connect(invocation, flags) as client:
            await launch.serve(client, settings, metrics, lambda: _announce(settings))

    process.run(run)


def _settings(invocation: Invocation, flags: dict[str, Any]) -> LaunchSettings:
    from fairlead.agent.launch import LaunchSettings
    from fairlead.lifecycle.facts import Settings
    from fairlead.manager import ServingOptions

    return LaunchSettings(
        node_name=flags["node_name"],
        registry=flags["registry_dir"],
        state=flags["state_dir"] or flags["registry_dir"].parent,
        settings=Settings(
            driver_wait=dt.timedelta(seconds=flags["driver_wait_timeout"]),
            keep_finished=dt.timedelta(seconds=flags["finished_event_ttl"]),
            well_known_conditions=flags["well_known_conditions"],
            hold_autoscalers=flags["hold_autoscalers"],
        ),
        platform=flags["platform"],
        shutdown=_shutdown(invocation, flags),
        serving=ServingOptions(bind_address=flags["bind_address"], port=flags["secure_port"] or None),
        gates=flags["feature_gates"],
    )


def _shutdown(invocation: Invocation, flags: dict[str, Any]) -> ShutdownSettings | None:
    """What is to be done about shutdowns; None when nothing is."""
    if flags["config"] is None:
        return None
    from fairlead.agent.shutdown.configuration import read_config
    from fairlead.agent.shutdown.launch import ShutdownSettings, is_supported
    from fairlead.base import gates
    from fairlead.lifecycle.shutdown_config import BadShutdownConfig

    try:
        config = read_config(flags["config"], gate_is_on=flags["feature_gates"].enabled(gates.GRACEFUL_NODE_SHUTDOWN))
    except BadShutdownConfig as error:
        raise click.UsageError(f"--config: {error}") from error
    if not config.shutdown.enabled:
        return None
    if not is_supported():
        raise click.UsageError(f"--config: {flags['config']} asks for graceful shutdowns, which need Linux")
    return ShutdownSettings(config=config, environment=invocation.environment, owner=flags["shutdown_owner"])


def _connect(invocation: Invocation, flags: dict[str, Any]) -> Client:
    from fairlead import client
    from fairlead.api.scheme import Scheme

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component="fairlead-agent",
        environment=invocation.environment,
        scheme=Scheme(flags["lifecycle_api_group"]),
    )


def _announce(settings: LaunchSettings) -> None:
    click.echo(f"fairlead agent looks after node {settings.node_name}; drivers register in {settings.registry}")
