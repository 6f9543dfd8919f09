"""`fairlead cloud-controller-manager`: runs the controllers of one cloud. See `kube_fairlead.cloud`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import flag_values, manager_flags, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.cloud.assembly import CloudManager
    from kube_fairlead.manager import Manager

__all__ = ["command"]

_COMPONENT = "cloud-controller-manager"


def _platforms(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    # An empty list differs from a flag that is not set.
    if value is None:
        return None
    return tuple(flag_values.platform(ctx, parameter, name) for name in flag_values.listed(ctx, parameter, value))


def _cluster_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter(
            "must not be empty: the objects of the cluster in the cloud are found by it", ctx, parameter
        )
    return value


@click.command(_COMPONENT)
@shared_flags.cluster
@click.option(
    "--cloud-provider",
    required=True,
    help="Name of the cloud provider: aws, hcloud, static, external-grpc (your own gRPC server), or an installed "
    "plugin.",
)
@click.option("--cloud-config", type=flag_values.FILE, help="Configuration file of the provider.")
@click.option(
    "--cloud-provider-platforms",
    metavar="PLATFORM,...",
    callback=_platforms,
    help="Platforms, the schemes of providerIDs: this manager writes to nodes of these platforms only. An empty list "
    "is a cluster with a single cloud: it writes to all nodes.  [default: the platforms of the provider]",
)
@click.option(
    "--controllers",
    metavar="NAME,...",
    default="*",
    show_default=True,
    callback=flag_values.controllers,
    help="Controllers to run: NAME, -NAME to disable one, * for the default ones. Names: cloud-node-controller, "
    "cloud-node-lifecycle-controller, node-route-controller, service-lb-controller. With platforms, the last two run "
    "only if they are named.",
)
@click.option(
    "--cluster-name",
    default="kubernetes",
    show_default=True,
    callback=_cluster_name,
    help="Name of the cluster in the cloud. Providers name and find its routes and load balancers by it.",
)
@click.option(
    "--cluster-cidr",
    default="",
    callback=flag_values.cidrs,
    help="IP range of pods, for the route controller; for dual stack one range of each IP family, comma-separated.",
)
@shared_flags.boolean(
    "--configure-cloud-routes", default=True, text="Run the route controller, if it is among --controllers."
)
@shared_flags.period(
    "--node-monitor-period", "5s", "Interval at which nodes are compared with the machines of the cloud."
)
@shared_flags.period(
    "--node-status-update-frequency", "5m", "Interval at which the addresses of nodes are updated from the cloud."
)
@shared_flags.period("--route-reconciliation-period", "10s", "Interval at which routes in the cloud are reconciled.")
@shared_flags.workers("--concurrent-node-syncs", 1, "Number of nodes that are initialized concurrently.")
@click.option(
    "--concurrent-node-status-updates",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of nodes whose addresses are updated concurrently; 0: the value of --concurrent-node-syncs.",
)
@shared_flags.workers(
    "--concurrent-node-lifecycle-syncs", 1, "Number of nodes that are tainted or deleted concurrently."
)
@shared_flags.workers("--concurrent-service-syncs", 1, "Number of Services that are reconciled concurrently.")
@click.option(
    "--node-vanishing-share",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Limit of node deletions because machines are missing in the cloud, as a share of the cloud's nodes in five "
    "minutes: 0.1 is 10 %, and at least one node; 0 allows none. Beyond the limit no node is deleted until a user "
    "annotates it with cloud.fairlead.dev/confirm-deletion=true.",
)
@manager_flags.manager_flags(lease="", port=10258)
@shared_flags.feature_gates
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Run the cloud controllers for the nodes of one cloud: initialize, update and delete nodes, as the cloud reports.

    It does not write to nodes of other clouds or of none, so several of these can run in one cluster. The default name
    of the Lease is cloud-controller-manager; with platforms cloud-controller-manager-PROVIDER; with other platforms
    than the provider's cloud-controller-manager-PROVIDER-PLATFORM. Docs: hybrid-clouds.md, ownership.md.
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
