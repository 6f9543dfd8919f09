"""Load balancers of Hetzner Cloud: one per Service, found again by a label that carries the Service's uid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kube_fairlead.api.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import logs
from kube_fairlead.cloud.errors import CloudRefused, ForeignId, NotReadyYet
from kube_fairlead.cloud.providers.hcloud.client import HetznerClient, NotThere
from kube_fairlead.cloud.providers.hcloud.config import HetznerConfig
from kube_fairlead.cloud.providers.hcloud.load_balancer_spec import (
    LoadBalancerSpec,
    OpenToAll,
    load_balancer_name,
    location_of,
    shown_hostname,
    shows_ipv6,
    spec_of,
)
from kube_fairlead.cloud.providers.hcloud.servers import server_number

__all__ = ["HetznerLoadBalancers"]

# The label of Hetzner's own manager, so that what it made is found here too.
_LABEL: Final = "hcloud-ccm/service-uid"
_POLL_SECONDS: Final = 5.0
# Of new ones, unless the Service says otherwise.
_TYPE: Final = "lb11"
_ALGORITHM: Final = "round_robin"

_log = logs.get_logger(__name__)


class HetznerLoadBalancers:
    """Makes, changes and removes load balancers."""

    def __init__(self, client: HetznerClient, config: HetznerConfig) -> None:
        self._client = client
        self._config = config

    def get_load_balancer_name(self, cluster_name: str, service: Service) -> str:
        """As annotated, else made of the Service's uid."""
        del cluster_name
        return load_balancer_name(service)

    async def get_load_balancer(self, cluster_name: str, service: Service) -> LoadBalancerStatus | None:
        """Where it is reached, if it exists."""
        del cluster_name
        made = await self._find(service)
        return _status(made, service) if made is not None else None

    async def ensure_load_balancer(
        self, cluster_name: str, service: Service, nodes: Sequence[Node]
    ) -> LoadBalancerStatus:
        """The load balancer, then its network, its listeners and its targets."""
        del cluster_name
        made = await self._find(service)
        try:
            spec = spec_of(service, self._config)
        except OpenToAll:
            # Its ranges came later: what lets in all clients must not stay open until a person reads the Event.
            if made is not None:
                await self._listen(made, {})
            raise
        if made is None:
            made = await self._create(service, spec)
        await self._change(made, spec)
        await self._listen(made, {one["listen_port"]: one for one in spec.services})
        await self._lead_to(made, nodes, private=spec.private)
        current = await self._find(service)
        if current is None or not (status := _status(current, service)).ingress:
            raise NotReadyYet("the load balancer has no address yet", retry_after_seconds=_POLL_SECONDS)
        return status

    async def update_load_balancer(self, cluster_name: str, service: Service, nodes: Sequence[Node]) -> None:
        """Bring the targets in line."""
        del cluster_name
        made = await self._find(service)
        if made is None:
            raise CloudRefused(f"there is no load balancer for {service.key}")
        await self._lead_to(made, nodes, private=spec_of(service, self._config).private)

    async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
        """Its listeners and targets are parts of it, and go with it."""
        del cluster_name
        for made in await self._all(service):
            try:
                await self._client.act(f"/load_balancers/{made['id']}", method="DELETE")
            except NotThere:
                continue

    async def _all(self, service: Service) -> list[Json]:
        return await self._client.pages("/load_balancers", "load_balancers", label_selector=f"{_LABEL}=={service.uid}")

    async def _find(self, service: Service) -> Json | None:
        found = await self._all(service)
        if len(found) > 1:
            numbers = ", ".join(str(one["id"]) for one in found)
            raise CloudRefused(f"several load balancers bear the uid of {service.key}: {numbers}; remove all but one")
        return found[0] if found else None

    async def _create(self, service: Service, spec: LoadBalancerSpec) -> Json:
        answer = await self._client.act(
            "/load_balancers",
            {
                "name": spec.name,
                "load_balancer_type": spec.type or _TYPE,
                "algorithm": {"type": spec.algorithm or _ALGORITHM},
                "labels": {_LABEL: service.uid},
                "public_interface": spec.public is not False,
                **location_of(service, self._config),
            },
        )
        made: Json = answer["load_balancer"]
        return made

    async def _change(self, made: Json, spec: LoadBalancerSpec) -> None:
        # What the Service does not say stays: another manager, or a person, may have made the load balancer.
        if spec.algorithm and (made.get("algorithm") or {}).get("type") != spec.algorithm:
            await self._act(made, "change_algorithm", {"type": spec.algorithm})
        if spec.type and (made.get("load_balancer_type") or {}).get("name") != spec.type:
            await self._act(made, "change_type", {"load_balancer_type": spec.type})
        network = await self._client.network_id()
        attached = {one["network"] for one in made.get("private_net") or ()}
        if (spec.private or spec.public is False) and network not in attached:
            await self._act(made, "attach_to_network", {"network": network})
        if spec.public is not None and bool((made.get("public_net") or {}).get("enabled")) != spec.public:
            command = "enable_public_interface" if spec.public else "disable_public_interface"
            await self._act(made, command, None)

    async def _listen(self, made: Json, wanted: Mapping[int, Json]) -> None:
        present = {one["listen_port"]: one for one in made.get("services") or ()}
        # First away with what is not wanted: a port that changes its meaning must not have both.
        for port in sorted(present.keys() - wanted.keys()):
            await self._act(made, "delete_service", {"listen_port": port})
        for port, listener in sorted(wanted.items()):
            if port not in present:
                await self._act(made, "add_service", listener)
            elif not _is_like(present[port], listener):
                await self._act(made, "update_service", listener)

    async def _lead_to(self, made: Json, nodes: Sequence[Node], *, private: bool) -> None:
        wanted = set(_servers_of(nodes))
        present = {
            one["server"]["id"]: bool(one.get("use_private_ip"))
            for one in made.get("targets") or ()
            if one["type"] == "server"
        }
        for server, is_private in sorted(present.items()):
            if server not in wanted or is_private != private:
                await self._act(made, "remove_target", {"type": "server", "server": {"id": server}})
        refusals: list[CloudRefused] = []
        for server in sorted(wanted):
            if present.get(server) is private:
                continue
            target: Json = {"type": "server", "server": {"id": server}, "use_private_ip": private}
            try:
                await self._act(made, "add_target", target)
            except CloudRefused as error:
                # One server that cannot be a target must not keep the others out.
                _log.warning("server cannot be a target", server=server, load_balancer=made["id"], error=str(error))
                refusals.append(error)
        if refusals:
            raise refusals[0]

    async def _act(self, made: Json, command: str, body: Json | None) -> None:
        await self._client.act(f"/load_balancers/{made['id']}/actions/{command}", body)


def _servers_of(nodes: Sequence[Node]) -> list[int]:
    servers: list[int] = []
    for node in nodes:
        try:
            servers.append(server_number(node.spec.provider_id))
        except ForeignId:
            continue  # an older form of an id, which names no cloud server
    return servers


def _is_like(present: object, wanted: object) -> bool:
    """Whether there is everything that is wanted; the cloud adds fields and defaults of its own."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(_is_like(present.get(key), one) for key, one in wanted.items())
    return present == wanted


def _status(made: Json, service: Service) -> LoadBalancerStatus:
    if hostname := shown_hostname(service):
        return LoadBalancerStatus(ingress=(LoadBalancerIngress(hostname=hostname),))
    public = made.get("public_net") or {}
    addresses: list[str] = []
    if public.get("enabled"):
        addresses.append((public.get("ipv4") or {}).get("ip") or "")
        if shows_ipv6(service):
            addresses.append((public.get("ipv6") or {}).get("ip") or "")
    else:
        addresses += [one.get("ip") or "" for one in made.get("private_net") or ()]
    return LoadBalancerStatus(ingress=tuple(LoadBalancerIngress(ip=one) for one in addresses if one))
