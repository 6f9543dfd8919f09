"""`fairlead cloud-controller-manager`: the controllers of one cloud, under leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.cloud.assembly import CloudManager
    from kube_fairlead.manager import Manager

__all__ = ["command"]

_COMPONENT = "cloud-controller-manager"


def _platforms(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    # To name none is not the same as not to say.
    if value is None:
        return None
    return tuple(values.platform(ctx, parameter, name) for name in manager_flags.listed(ctx, parameter, value))


def _cluster_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it is empty; what is the cluster's in the cloud is found by it", ctx, parameter)
    return value


@click.command(_COMPONENT)
@click.option("--kubeconfig", type=values.FILE, help="The kubeconfig [default: the one that kubectl would use].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
@click.option(
    "--cloud-provider",
    required=True,
    help="The provider: aws, hcloud, static, external-grpc (a server of your own), or one that you installed.",
)
@click.option("--cloud-config", type=values.FILE, help="The provider's configuration file.")
@click.option(
    "--cloud-provider-platforms",
    metavar="PLATFORM,...",
    callback=_platforms,
    help="The schemes of the providerIDs whose nodes are this manager's [default: those that the provider supports]. "
    "Empty: a single cloud, all nodes are.",
)
@click.option(
    "--controllers",
    metavar="NAME,...",
    default="*",
    show_default=True,
    callback=values.controllers,
    help="Which controllers run: '*' all that do by default, 'name' that one, '-name' not that one. There are: "
    "cloud-node-controller, cloud-node-lifecycle-controller, node-route-controller and service-lb-controller; with "
    "platforms, the last two run only if named.",
)
@click.option(
    "--cluster-name",
    default="kubernetes",
    show_default=True,
    callback=_cluster_name,
    help="The instance prefix for the cluster.",
)
@click.option(
    "--cluster-cidr",
    default="",
    callback=values.cidrs,
    help="The range of pod addresses; one of each family for dual stack.",
)
@manager_flags.boolean("--configure-cloud-routes", default=True, text="Let the route controller run.")
@manager_flags.period("--node-monitor-period", "5s", "How often the lifecycle of nodes is looked at.")
@manager_flags.period("--node-status-update-frequency", "5m", "How often node addresses are looked at.")
@manager_flags.period("--route-reconciliation-period", "10s", "How often routes are looked at.")
@manager_flags.workers("--concurrent-node-syncs", 1, "Nodes initialised at once.")
@click.option(
    "--concurrent-node-status-updates",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Node statuses written at once; 0: as --concurrent-node-syncs.",
)
@manager_flags.workers("--concurrent-node-lifecycle-syncs", 1, "Nodes tainted at once.")
@manager_flags.workers("--concurrent-service-syncs", 1, "Services worked on at once.")
@click.option(
    "--node-vanishing-share",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="The share of the cloud's nodes that may vanish within five minutes and be deleted. One may, unless this is "
    "0; all of a platform may only if they were announced. Beyond that an operator must confirm.",
)
@manager_flags.manager_flags(lease="", port=10258)
@options.feature_gates
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Bring the nodes of one cloud in line with that cloud.

    Nodes of other clouds, and of none, are left alone, so that several of these can run in one cluster. Unless it is
    named, the Lease is cloud-controller-manager, with platforms cloud-controller-manager-PROVIDER, and
    cloud-controller-manager-PROVIDER-PLATFORM where the platforms are not the provider's own. Docs: hybrid-clouds.md,
    ownership.md.
    """
    from kube_fairlead.cloud.errors import ProviderError

    try:
        manager = _manager(invocation, flags)
    except (ProviderError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    manager_flags.run_manager(manager)


def _manager(invocation: Invocation, flags: dict[str, Any]) -> Manager:
    from kube_fairlead import client
    from kube_fairlead.election import Lock
    from kube_fairlead.manager import GroupPlan

    cloud = _cloud(invocation, flags)

    def connect() -> Client:
        return client.connect(
            kubeconfig_path=flags["kubeconfig"],
            context=flags["kube_context"],
            component=_COMPONENT,
            environment=invocation.environment,
        )

    identity = manager_flags.make_identity(connect(), invocation.environment)
    plan = GroupPlan(
        lock=Lock(flags["leader_elect_resource_namespace"], cloud.lease),
        controllers=(cloud.as_controller(instance=identity),),
        connect=connect,
    )
    return manager_flags.make_manager(flags, component=_COMPONENT, identity=identity, groups=[plan])


def _cloud(invocation: Invocation, flags: dict[str, Any]) -> CloudManager:
    from kube_fairlead.base.clock import RealClock
    from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
    from kube_fairlead.cloud.decisions.lifecycle import Limits
    from kube_fairlead.cloud.provider import ProviderSettings
    from kube_fairlead.cloud.registry import make_provider, platforms_of

    provider = make_provider(
        flags["cloud_provider"],
        ProviderSettings(
            cloud_config=flags["cloud_config"],
            cluster_name=flags["cluster_name"],
            clock=RealClock(),
            environment=invocation.environment,
        ),
    )
    settings = CloudSettings(
        controllers=flags["controllers"],
        namespace=flags["leader_elect_resource_namespace"],
        lease=flags["leader_elect_resource_name"],
        cluster_name=flags["cluster_name"],
        cluster_cidr=flags["cluster_cidr"],
        configure_cloud_routes=flags["configure_cloud_routes"],
        node_monitor_period_seconds=flags["node_monitor_period"],
        node_status_update_frequency_seconds=flags["node_status_update_frequency"],
        route_reconciliation_period_seconds=flags["route_reconciliation_period"],
        concurrent_node_syncs=flags["concurrent_node_syncs"],
        concurrent_node_status_updates=flags["concurrent_node_status_updates"],
        concurrent_node_lifecycle_syncs=flags["concurrent_node_lifecycle_syncs"],
        concurrent_service_syncs=flags["concurrent_service_syncs"],
        limits=Limits(vanishing_share=flags["node_vanishing_share"]),
    )
    return CloudManager(provider, platforms_of(provider, flags["cloud_provider_platforms"]), settings)
