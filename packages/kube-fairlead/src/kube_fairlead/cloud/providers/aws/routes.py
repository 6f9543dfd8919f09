"""Route tables of a VPC."""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.errors import CloudRefused
from kube_fairlead.cloud.provider import Route
from kube_fairlead.cloud.providers.aws import ids
from kube_fairlead.cloud.providers.aws.client import AwsClient, AwsError
from kube_fairlead.cloud.providers.aws.config import AwsConfig

__all__ = ["AwsRoutes"]


class AwsRoutes:
    """The routes of one table: the one that is configured, else the one that bears the cluster's tag."""

    def __init__(self, client: AwsClient, config: AwsConfig) -> None:
        self._client = client
        self._config = config

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """Routes to instances, and dead ends. Routes to gateways and the like were never ours."""
        names = {instance: node.name for node in nodes if (instance := ids.instance_id_of_node(node))}
        routes = []
        for raw in (await self._table()).get("Routes") or []:
            destination = _destination(raw)
            blackhole = raw.get("State") == "blackhole"
            instance = raw.get("InstanceId") or ""
            if destination and (instance or blackhole):
                # An instance that is no node keeps its id as a name, which no node has.
                target = names.get(instance, instance)
                name = f"{cluster_name}-{destination}"
                routes.append(Route(destination_cidr=destination, target_node=target, name=name, blackhole=blackhole))
        return routes

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """Lead a range to the node's instance, which then must take packets that are not for itself."""
        del cluster_name, name_hint
        instance = ids.instance_id(node.spec.provider_id)
        await self._client.call(
            "ec2", "modify_instance_attribute", InstanceId=instance, SourceDestCheck={"Value": False}
        )
        table = await self._table()
        present = next((raw for raw in table.get("Routes") or [] if _destination(raw) == route.destination_cidr), None)
        if present is not None:
            if present.get("InstanceId") == instance and present.get("State") != "blackhole":
                return
            if present.get("State") != "blackhole":
                raise CloudRefused(f"a route for {route.destination_cidr} leads elsewhere already")
            await self._delete(table["RouteTableId"], route.destination_cidr)
        await self._client.call(
            "ec2",
            "create_route",
            RouteTableId=table["RouteTableId"],
            InstanceId=instance,
            **_named(route.destination_cidr),
        )

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """Remove a route."""
        del cluster_name
        await self._delete((await self._table())["RouteTableId"], route.destination_cidr)

    async def _delete(self, table: str, destination: str) -> None:
        try:
            await self._client.call("ec2", "delete_route", RouteTableId=table, **_named(destination))
        except AwsError as error:
            if error.code != "InvalidRoute.NotFound":
                raise

    async def _table(self) -> Json:
        filters: list[Json] = [{"Name": "vpc-id", "Values": [self._config.vpc]}] if self._config.vpc else []
        if self._config.route_table:
            parameters: Json = {"RouteTableIds": [self._config.route_table]}
        elif self._config.cluster_tag:
            parameters = {"Filters": [*filters, {"Name": "tag-key", "Values": [self._config.cluster_tag]}]}
        else:
            raise CloudRefused(
                "no route table: set RouteTableID, or KubernetesClusterID and tag one, in [Global] of --cloud-config"
            )
        tables = await self._client.pages("ec2", "describe_route_tables", "RouteTables", **parameters)
        if len(tables) != 1:
            raise CloudRefused(f"{len(tables)} route tables fit the configuration, and exactly one must")
        return tables[0]


def _destination(raw: Json) -> str:
    return str(raw.get("DestinationCidrBlock") or raw.get("DestinationIpv6CidrBlock") or "")


def _named(destination: str) -> Json:
    key = "DestinationIpv6CidrBlock" if ":" in destination else "DestinationCidrBlock"
    return {key: destination}
