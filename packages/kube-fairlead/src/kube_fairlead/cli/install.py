"""`fairlead install`: prints manifests for a real cluster, or removes an installation. See `kube_fairlead.install`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import click

from kube_fairlead.api import reserved
from kube_fairlead.base import process
from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.install.installation import Installation
    from kube_fairlead.install.removal import RemovalStep

__all__ = ["command"]

_MODES = click.Choice(["off", "warn", "deny"])


def _checked_duration(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    flag_values.duration_or_zero(ctx, parameter, value)
    return value


@click.command("install")
@click.option(
    "--namespace",
    default="fairlead-system",
    show_default=True,
    callback=flag_values.label,
    help="Namespace of the components.",
)
@click.option(
    "--image", default="", callback=flag_values.image, help="Container image.  [default: fairlead at this version]"
)
@shared_flags.installed_group
@shared_flags.boolean(
    "--lifecycle",
    default=True,
    text="Install the CRDs, an agent and a drain driver on every node, and controller-manager.",
)
@shared_flags.boolean(
    "--claimer",
    default=False,
    text="Enable the controller claimer, which carries out LifecycleEvents of nodes without a running agent. It gets "
    "the permission to drain every node.",
)
@shared_flags.boolean(
    "--eviction-requests",
    default=False,
    text="Permit drain drivers to create EvictionRequests, if the API server serves them (Kubernetes 1.37, alpha).",
)
@shared_flags.boolean(
    "--shutdown-out-of-service-taint",
    default=False,
    text="Let controller-manager taint nodes that are shut down and that their cloud reports as off. It gets the "
    "permission to patch nodes.",
)
@click.option(
    "--shutdown-grace-period",
    metavar="DURATION",
    default="",
    help="Enable graceful node shutdown: agents terminate the pods of their machine within this time before it powers "
    "off, and get the permission to delete pods.  [default: disabled]",
)
@click.option(
    "--shutdown-grace-period-critical-pods",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="Part of --shutdown-grace-period that is reserved for critical pods.",
)
@click.option(
    "--container-runtime-endpoint",
    metavar="URL",
    default="unix:///run/containerd/containerd.sock",
    show_default=True,
    help="Socket of the container runtime, for agents with --shutdown-grace-period.",
)
@click.option(
    "--requester",
    type=click.Choice(["off", "check", "record"]),
    default="check",
    show_default=True,
    help="Policies for the annotation that names the requester of a LifecycleEvent. check: the API server rejects "
    "another user than the creator. record: it also sets the annotation in every event (needs Kubernetes 1.36). off: "
    "none.",
)
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="1h",
    show_default=True,
    callback=_checked_duration,
    help="How long finished LifecycleEvents are kept before they are deleted; 0s: they are deleted at once.",
)
@click.option(
    "--fence",
    type=_MODES,
    default="deny",
    show_default=True,
    help="Policy for writes of a manager that does not hold its Lease: the API server rejects them (deny), or returns "
    "a warning (warn).",
)
@click.option(
    "--own-node",
    type=_MODES,
    default="deny",
    show_default=True,
    help="Policy for writes of an agent or drain driver to other nodes than its own, and to fields that it never "
    "writes: the API server rejects them (deny), or returns a warning (warn).",
)
@shared_flags.boolean(
    "--eviction-webhook",
    default=True,
    text="Install a webhook that rejects evictions by a drain driver of pods on other nodes. It creates its own "
    "certificates.",
)
@click.option(
    "--ccm",
    "clouds",
    metavar="PROVIDER[=PLATFORM,...]",
    multiple=True,
    help="Also install a cloud controller manager for this provider, with a policy that restricts it to nodes of its "
    "platforms. May be repeated, also for one provider with other platforms: each has its own Lease, service account, "
    "policy and Secret.",
)
@click.option(
    "--ccm-controllers",
    metavar="[PROVIDER[=PLATFORM,...]=]NAME,...",
    multiple=True,
    help="Controllers of a --ccm beside the node controllers: node-route-controller, service-lb-controller. May be "
    "repeated; with several --ccm the provider is required.  [default: none]",
)
@click.option(
    "--cluster-cidr",
    default="",
    callback=flag_values.cidrs,
    help="IP range of pods, for the route controller of a --ccm.",
)
@click.option(
    "--fence-cloud-manager",
    "fenced_clouds",
    metavar="NAMESPACE/SERVICEACCOUNT=PLATFORM,...",
    multiple=True,
    help="Also install a policy for a cloud controller manager that is not Fairlead's: its service account may write "
    "to and delete nodes of these platforms only. May be repeated, once per account.",
)
@click.option(
    "--ccm-policy",
    type=click.Choice(["warn", "deny"]),
    default="deny",
    show_default=True,
    help="Policy for writes of a cloud controller manager to nodes of other platforms: the API server rejects them "
    "(deny), or returns a warning (warn).",
)
@click.option(
    "--uninstall",
    is_flag=True,
    help="Delete the objects that these flags install, in an order that leaves no object Terminating. Needs an "
    "administrator.",
)
@click.option(
    "--kubeconfig", type=flag_values.FILE, help="With --uninstall: the kubeconfig file.  [default: as for kubectl]"
)
@click.option("--context", "kube_context", default="", help="With --uninstall: context of the kubeconfig.")
@shared_flags.period(
    "--timeout",
    "5m",
    "With --uninstall: how long agents may take to finish their LifecycleEvents. After it, the rest is set to Failed.",
)
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Print the manifests that install Fairlead in a cluster, or remove it.

    Apply them: `fairlead install | kubectl apply --server-side -f -`. Only --uninstall connects to the API server.
    Docs: install.md.
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
            click.echo(f"kept {kind} {name}: policies that are installed later need it to find their Lease")
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
