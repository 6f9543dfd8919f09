"""Routes of a Hetzner network. They lead to addresses in it, which are servers' own."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.errors import CloudRefused
from kube_fairlead.cloud.provider import Route
from kube_fairlead.cloud.providers.hcloud.client import HetznerClient, NotThere
from kube_fairlead.cloud.providers.hcloud.servers import PLATFORM, private_address, server_number

__all__ = ["HetznerRoutes"]


class HetznerRoutes:
    """The route table of the network that is configured."""

    def __init__(self, client: HetznerClient) -> None:
        self._client = client

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """All routes of the network. A gateway is identified by the internal address of the cloud's own nodes."""
        del cluster_name
        names = {
            address.address: node.name
            for node in nodes
            if node.spec.provider_id.startswith(f"{PLATFORM}://")
            for address in node.status.addresses
            if address.type == "InternalIP"
        }
        return [
            Route(
                destination_cidr=route["destination"],
                target_node=names.get(route["gateway"], ""),
                name=route["gateway"],
            )
            for route in await self._table()
        ]

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """To the server's address in the network, as the cloud itself has it."""
        del cluster_name, name_hint
        if ipaddress.ip_network(route.destination_cidr, strict=False).version != 4:
            raise CloudRefused(f"{route.destination_cidr}: networks of Hetzner Cloud carry IPv4 only")
        server = await self._client.find(f"/servers/{server_number(node.spec.provider_id)}", "server")
        gateway = private_address(server, await self._network()) if server is not None else ""
        if not gateway:
            raise CloudRefused(f"the server of node {node.name} is not in the network that HCLOUD_NETWORK names")
        wanted = {"destination": route.destination_cidr, "gateway": gateway}
        for known in await self._table():
            if known["destination"] == route.destination_cidr:
                if known["gateway"] == gateway:
                    return
                raise CloudRefused(f"there is a route to {known['destination']} already, through {known['gateway']}")
        await self._act("add_route", wanted)

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """By range and gateway, so that a route that was replaced meanwhile stays."""
        del cluster_name
        with contextlib.suppress(NotThere):
            await self._act("delete_route", {"destination": route.destination_cidr, "gateway": route.name})

    async def _table(self) -> list[Json]:
        network: Json = (await self._client.get(f"/networks/{await self._network()}"))["network"]
        return list(network.get("routes") or ())

    async def _act(self, command: str, body: Json) -> None:
        await self._client.act(f"/networks/{await self._network()}/actions/{command}", body)

    async def _network(self) -> int:
        network = await self._client.network_id()
        if network is None:
            raise CloudRefused("routes need HCLOUD_NETWORK")
        return network
