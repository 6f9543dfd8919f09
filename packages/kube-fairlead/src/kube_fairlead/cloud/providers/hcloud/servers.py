"""Servers of Hetzner Cloud."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kube_fairlead.api.core_v1 import Node, NodeAddress
from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.errors import ForeignId
from kube_fairlead.cloud.provider import Instance, InstanceQuery
from kube_fairlead.cloud.providers.hcloud.client import HetznerClient

__all__ = ["PLATFORM", "HetznerServers", "private_address", "server_number"]

PLATFORM = "hcloud"
_PROVIDER_ID = re.compile(rf"{PLATFORM}://(?P<server>[0-9]{{1,18}})")
# Up to so many questions, asking one by one is fewer calls than listing.
_ASK_ONE_BY_ONE = 3


class HetznerServers:
    """The servers of one project."""

    def __init__(self, client: HetznerClient) -> None:
        self._client = client

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Few are read one by one, many by listing the project."""
        network = await self._client.network_id()
        if len(queries) <= _ASK_ONE_BY_ONE:
            servers = [server for query in queries for server in await self._one(query)]
        else:
            servers = await self._client.pages("/servers", "servers")
        by_id = {_id_of(server): server for server in servers}
        by_name = {server["name"]: server for server in servers}
        found: dict[InstanceQuery, Instance] = {}
        for query in queries:
            known = by_id.get(query.provider_id) if query.provider_id else by_name.get(query.node_name)
            if known is not None:
                found[query] = _to_instance(known, network)
        return found

    def recognises(self, provider_id: str) -> bool:
        """Whether it names a cloud server."""
        return _PROVIDER_ID.fullmatch(provider_id) is not None

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Read this very server."""
        del node
        return await self._client.find(f"/servers/{server_number(provider_id)}", "server") is not None

    async def _one(self, query: InstanceQuery) -> list[Json]:
        if not query.provider_id:
            return await self._client.pages("/servers", "servers", name=query.node_name)
        if not self.recognises(query.provider_id):
            return []  # not found, which proves nothing
        server = await self._client.find(f"/servers/{server_number(query.provider_id)}", "server")
        return [server] if server is not None else []


def server_number(provider_id: str) -> int:
    """The server that a providerID names.

    Raises:
        ForeignId: it names none.
    """
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise ForeignId(provider_id, "it should look like hcloud://<number of the server>")
    return int(match["server"])


def private_address(server: Json, network: int | None) -> str:
    """The address of a server in a network; empty if it is not in it."""
    for attached in server.get("private_net") or ():
        if attached["network"] == network:
            return str(attached.get("ip") or "")
    return ""


def _id_of(server: Json) -> str:
    return f"{PLATFORM}://{server['id']}"


def _to_instance(server: Json, network: int | None) -> Instance:
    # Hetzner's own manager says the location for the region. What it said for the zone, the datacenter, is no more.
    where = str((server.get("location") or {}).get("name") or "")
    return Instance(
        provider_id=_id_of(server),
        shutdown=server.get("status") == "off",
        instance_type=str((server.get("server_type") or {}).get("name") or ""),
        addresses=tuple(_addresses(server, network)),
        zone=where,
        region=where,
        additional_labels={"instance.hetzner.cloud/provided-by": "cloud"},
    )


def _addresses(server: Json, network: int | None) -> Iterator[NodeAddress]:
    yield NodeAddress(type="Hostname", address=str(server.get("name") or ""))
    if internal := private_address(server, network):
        yield NodeAddress(type="InternalIP", address=internal)
    public = (server.get("public_net") or {}).get("ipv4") or {}
    if public.get("ip"):
        yield NodeAddress(type="ExternalIP", address=str(public["ip"]))
