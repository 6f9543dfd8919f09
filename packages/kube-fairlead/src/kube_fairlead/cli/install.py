"""`fairlead install`: prints manifests for a real cluster, or removes an installation. See `kube_fairlead.install`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import click

from kube_fairlead.api import reserved
from kube_fairlead.base import process
from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.install.installation import Installation
    from kube_fairlead.install.removal import RemovalStep

__all__ = ["command"]

_MODES = click.Choice(["off", "warn", "deny"])


def _checked_duration(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    manager_flags.duration_or_zero(ctx, parameter, value)
    return value


@click.command("install")
@click.option(
    "--namespace",
    default="fairlead-system",
    show_default=True,
    callback=values.label,
    help="The namespace of the components.",
)
@click.option(
    "--image", default="", callback=values.image, help="The container image [default: fairlead at this version]."
)
@values.installed_group
@manager_flags.boolean(
    "--lifecycle", default=True, text="Install the kinds, agent and drain driver on every node, and the manager."
)
@manager_flags.boolean(
    "--claimer",
    default=False,
    text="A central claimer claims for nodes without a live agent, and may drain every node.",
)
@manager_flags.boolean(
    "--eviction-requests",
    default=False,
    text="Drain drivers may create EvictionRequests, if the API server serves them (Kubernetes 1.37, alpha).",
)
@manager_flags.boolean(
    "--shutdown-out-of-service-taint",
    default=False,
    text="The manager taints nodes that shut down and that their cloud reports as off, and may patch nodes.",
)
@click.option(
    "--shutdown-grace-period",
    metavar="DURATION",
    default="",
    help="Agents end pods within this time when their machine shuts down, and may delete pods [default: no].",
)
@click.option(
    "--shutdown-grace-period-critical-pods",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="The part of --shutdown-grace-period that is reserved for critical pods.",
)
@click.option(
    "--container-runtime-endpoint",
    metavar="URL",
    default="unix:///run/containerd/containerd.sock",
    show_default=True,
    help="The container runtime's socket, for agents with --shutdown-grace-period.",
)
@click.option(
    "--requester",
    type=click.Choice(["off", "check", "record"]),
    default="check",
    show_default=True,
    help="Policies on the user that a LifecycleEvent names: reject another user than its creator (check), and also set "
    "the user in every event (record; needs Kubernetes 1.36).",
)
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="1h",
    show_default=True,
    callback=_checked_duration,
    help="How long finished LifecycleEvents are kept before they are deleted.",
)
@click.option(
    "--fence",
    type=_MODES,
    default="deny",
    show_default=True,
    help="How the API server treats writes of a manager that does not hold its Lease.",
)
@click.option(
    "--own-node",
    type=_MODES,
    default="deny",
    show_default=True,
    help="How the API server treats writes of an agent or drain driver to other nodes than its own, and to fields that "
    "its code does not write.",
)
@manager_flags.boolean(
    "--eviction-webhook",
    default=True,
    text="Install a webhook, with its own certificates, that rejects a drain driver's evictions on other nodes.",
)
@click.option(
    "--ccm",
    "clouds",
    metavar="PROVIDER[=PLATFORM,...]",
    multiple=True,
    help="Also install a cloud controller manager, with a policy that restricts it to nodes of its platforms. May be "
    "repeated, also for one provider with other platforms: each has its own Lease, account, policy and Secret.",
)
@click.option(
    "--ccm-controllers",
    metavar="[PROVIDER[=PLATFORM,...]=]NAME,...",
    multiple=True,
    help="The controllers that it runs beside the node controllers: node-route-controller, service-lb-controller. May "
    "be repeated; with several --ccm the provider is required.",
)
@click.option(
    "--cluster-cidr",
    default="",
    callback=values.cidrs,
    help="The range of pod addresses, for the route controller of a --ccm.",
)
@click.option(
    "--fence-cloud-manager",
    "fenced_clouds",
    metavar="NAMESPACE/SERVICEACCOUNT=PLATFORM,...",
    multiple=True,
    help="Also install a policy for a cloud controller manager of another origin, such as a cloud's own. Its "
    "account may write to and delete nodes of these platforms only. May be repeated, once per account.",
)
@click.option(
    "--ccm-policy",
    type=click.Choice(["warn", "deny"]),
    default="deny",
    show_default=True,
    help="How the API server treats writes of a cloud controller manager to nodes of other platforms.",
)
@click.option(
    "--uninstall",
    is_flag=True,
    help="Delete the objects that these flags install, in an order that leaves none stuck; needs an administrator.",
)
@click.option("--kubeconfig", type=values.FILE, help="For --uninstall: the API server [default: as kubectl finds it].")
@click.option("--context", "kube_context", default="", help="For --uninstall: the context of the kubeconfig to use.")
@manager_flags.period("--timeout", "5m", "For --uninstall: how long claimants may take to finish their events.")
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Print the manifests for a real cluster.

    For `kubectl apply --server-side -f -`. Only --uninstall contacts the API server. Docs: install.md.
    """
    try:
        installation = _installation(flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if flags["uninstall"]:
        process.run(lambda: _uninstall(invocation, flags, installation))
        return
    from kube_fairlead.api.yamltext import emitter
    from kube_fairlead.install import bundle

    click.echo(emitter.write_all(bundle.manifests(installation), width=110), nl=False)


async def _uninstall(invocation: Invocation, flags: dict[str, Any], installation: Installation) -> None:
    from kube_fairlead.install import removal

    async with _connect(invocation, flags) as client:
        if not flags["lifecycle_api_group"]:
            installation = await removal.served_installation(client, installation)
        try:
            await removal.remove(client, installation, patience_seconds=flags["timeout"], report=_print_step)
        except removal.Leftovers as error:
            raise click.ClickException(str(error)) from error


def _print_step(step: RemovalStep) -> None:
    from kube_fairlead.install import removal

    match step:
        case removal.KindsAbsent():
            click.echo("there are no LifecycleEvents: the API server does not serve them")
        case removal.EventFailed(name):
            click.echo(f"LifecycleEvent {name} set to Failed: its claimant did not finish it")
        case removal.ObjectDeleted(kind, name):
            click.echo(f"deleted {kind} {name}")
        case removal.ObjectKept(kind, name):
            click.echo(f"kept {kind} {name}: without it, fences that are installed later may not see their Lease")
        case _ as never:
            assert_never(never)


def _installation(flags: dict[str, Any]) -> Installation:
    from kube_fairlead.election.fence import FenceMode
    from kube_fairlead.install.cloud_managers import cloud_managers, other_managers
    from kube_fairlead.install.installation import Installation, ShutdownGrace

    shutdown = None
    if flags["shutdown_grace_period"]:
        try:
            shutdown = ShutdownGrace(
                grace_period=flags["shutdown_grace_period"],
                critical_pods=flags["shutdown_grace_period_critical_pods"],
                runtime_endpoint=flags["container_runtime_endpoint"],
            )
        except ValueError as error:
            raise click.UsageError(f"--shutdown-grace-period and related flags: {error}") from error
    image = {"image": flags["image"]} if flags["image"] else {}
    clouds = cloud_managers(
        flags["clouds"],
        flags["ccm_controllers"],
        namespace=flags["namespace"],
        cluster_cidr=flags["cluster_cidr"],
    )
    return Installation(
        namespace=flags["namespace"],
        lifecycle_group=flags["lifecycle_api_group"] or reserved.LIFECYCLE_GROUP,
        lifecycle=flags["lifecycle"],
        claimer=flags["claimer"],
        eviction_requests=flags["eviction_requests"],
        out_of_service_taint=flags["shutdown_out_of_service_taint"],
        shutdown=shutdown,
        finished_event_ttl=flags["finished_event_ttl"],
        requester=flags["requester"],
        fence=FenceMode(flags["fence"]),
        own_node=flags["own_node"],
        eviction_webhook=flags["eviction_webhook"],
        clouds=clouds,
        fenced_clouds=other_managers(flags["fenced_clouds"], beside=clouds),
        cluster_cidr=flags["cluster_cidr"],
        cloud_policy=flags["ccm_policy"],
        **image,
    )


def _connect(invocation: Invocation, flags: dict[str, Any]) -> Client:
    from kube_fairlead import client

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component="fairlead-install",
        environment=invocation.environment,
    )
