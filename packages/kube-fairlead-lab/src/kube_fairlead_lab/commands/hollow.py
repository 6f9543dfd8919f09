"""`fairlead hollow`: hollow nodes, a scheduler and workload controllers, without machines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.api import names
from kube_fairlead.base import process
from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead_lab.hollow import HollowOptions, NodePlan

__all__ = ["command"]


def _prefix(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    # A number follows the prefix.
    if problems := names.dns1123_subdomain(f"{value}0"):
        raise click.BadParameter(f"{value}0 is not a valid node name: {'; '.join(problems)}", ctx, parameter)
    return value


def _clouds(ctx: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    clouds = flag_values.listed(ctx, parameter, value)
    if not clouds:
        raise click.BadParameter("must be a list such as aws,hcloud, or none", ctx, parameter)
    return ["" if cloud == "none" else flag_values.platform(ctx, parameter, cloud) for cloud in clouds]


@click.command("hollow")
@shared_flags.cluster
@click.option("--nodes", type=click.IntRange(min=0), default=3, show_default=True, help="Number of nodes.")
@click.option(
    "--pods-per-node",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Create a Deployment with this number of pods per node; 0 creates none.",
)
@click.option(
    "--name-prefix",
    default="hollow-",
    show_default=True,
    callback=_prefix,
    help="Prefix of the nodes' names.",
)
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="Number of the first node.")
@click.option(
    "--clouds",
    metavar="NAME,...",
    default="aws,hcloud",
    show_default=True,
    callback=_clouds,
    help="Platforms of the nodes, in turn; 'none' is a node without a cloud.",
)
@shared_flags.boolean("--provider-ids", default=True, text="Set the nodes' providerID.")
@shared_flags.boolean(
    "--uninitialized",
    default=False,
    text="Register nodes for a cloud controller manager: tainted, without a providerID.",
)
@shared_flags.boolean(
    "--only-kubelets",
    default=False,
    text="Run kubelets only; kube-controller-manager and kube-scheduler run elsewhere.",
)
@shared_flags.boolean("--own-watches", default=False, text="Use one watch of pods per node, as real kubelets do.")
@shared_flags.period("--heartbeat-period", "10s", "Renewal interval of node Leases.")
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Run nodes that exist only in the API: they register, heartbeat, run pods and terminate them.

    Unless --only-kubelets is given, also schedule pods and reconcile ReplicaSets, Deployments, StatefulSets, DaemonSets
    and EndpointSlices. Runs until it is stopped; the Node objects stay. For demos, tests and measurements: annotations
    of a pod decide how it behaves. Docs: hollow.md.
    """
    from kube_fairlead_lab.hollow import HeartbeatOptions, HollowOptions, plan_nodes

    try:
        plans = plan_nodes(
            flags["nodes"],
            first=flags["first"],
            prefix=flags["name_prefix"],
            clouds=flags["clouds"],
            provider_ids=flags["provider_ids"],
            uninitialized=flags["uninitialized"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen = HollowOptions(
        only_kubelets=flags["only_kubelets"],
        own_watches=flags["own_watches"],
        heartbeat=HeartbeatOptions(renew_seconds=flags["heartbeat_period"]),
    )
    client = _connect(invocation, flags)
    process.run(lambda: _run(client, plans, chosen, flags["pods_per_node"]))


async def _run(client: Client, plans: list[NodePlan], chosen: HollowOptions, pods_per_node: int) -> None:
    from kube_fairlead_lab.hollow import HollowCluster, fill

    async with client:
        await _check_ranges(client, plans)
        async with HollowCluster(client, plans, chosen).running():
            if pods_per_node:
                await fill(client, pods_per_node * len(plans))
            click.echo(f"{len(plans)} hollow nodes are ready")
            try:
                await asyncio.Event().wait()
            finally:
                click.echo("the Node objects stay, and stay Ready until a node lifecycle controller updates them")


async def _check_ranges(client: Client, plans: list[NodePlan]) -> None:
    from kube_fairlead.api.core_v1 import Node
    from kube_fairlead.client.errors import ClientError
    from kube_fairlead_lab.hollow import check_ranges

    try:
        there = (await client.of(Node).list_all()).items
    except ClientError as error:
        click.echo(f"{error}; the nodes register when the API server is reachable", err=True)
        return
    try:
        check_ranges(plans, {node.spec.pod_cidr: node.name for node in there if node.spec.pod_cidr})
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _connect(invocation: Invocation, flags: dict[str, Any]) -> Client:
    from kube_fairlead import client

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component="fairlead-hollow",
        environment=invocation.environment,
    )
