"""The server of a cloud as one provider."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from kube_fairlead.api.core_v1 import LoadBalancerStatus, Node, Service
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import (
    CloudRefused,
    CloudUnavailable,
    ForeignId,
    ImplementedElsewhere,
    NotReadyYet,
    ProviderFault,
)
from kube_fairlead.cloud.ownership import platform_of_provider_id
from kube_fairlead.cloud.provider import Instance, InstanceQuery, Route
from kube_fairlead.cloud.providers.external import codec
from kube_fairlead.cloud.providers.external.channel import ExternalChannel, message
from kube_fairlead.cloud.providers.external.config import PARTS, ExternalConfig

__all__ = ["ExternalProvider"]

_EXISTS: Final = 1
_GONE: Final = 2


class ExternalProvider:
    """A cloud, as far as its configuration says what it can do."""

    name = "external-grpc"
    zones = None  # instances say where they are
    platforms_are_configured = True  # another server has others, and a manager of its own

    def __init__(self, channel: ExternalChannel, config: ExternalConfig, cluster_name: str) -> None:
        self._channel = channel
        self._config = config
        self._cluster_name = cluster_name
        self.instances = _Instances(channel, config.platforms) if "instances" in config.parts else None
        self.routes = _Routes(channel) if "routes" in config.parts else None
        self.load_balancers = _LoadBalancers(channel) if "loadBalancers" in config.parts else None

    def supported_platforms(self) -> frozenset[str]:
        """Those of the configuration, which the server is held to."""
        return self._config.platforms

    @contextlib.asynccontextmanager
    async def running(self, cluster: Cluster) -> AsyncIterator[None]:
        """Reads the server's name first: a server of another cloud must not get queries about these machines."""
        del cluster
        info = await self._channel.call("GetInfo", message("GetInfoRequest")(cluster_name=self._cluster_name))
        where = self._config.address
        if foreign := sorted(self._config.platforms - set(info.platforms)):
            known = ", ".join(info.platforms) or "none"
            raise CloudRefused(f"{where} does not answer for platform {foreign[0]}; it answers for {known}")
        able = {PARTS[number - 1] for number in info.parts if 0 < number <= len(PARTS)}
        if missing := sorted(self._config.parts - able):
            raise CloudRefused(
                f"{where} does not support {missing[0]}; it supports {', '.join(sorted(able)) or 'none'}"
            )
        yield


class _Instances:
    def __init__(self, channel: ExternalChannel, platforms: frozenset[str]) -> None:
        self._channel = channel
        self._platforms = platforms

    def recognises(self, provider_id: str) -> bool:
        return platform_of_provider_id(provider_id) in self._platforms

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        by_name = {query.node_name: query for query in queries}
        found: dict[InstanceQuery, Instance] = {}
        for batch in codec.batches(query.node for query in queries):
            request = message("DescribeInstancesRequest")(nodes=batch)
            answer = await self._channel.call("DescribeInstances", request)
            if unasked := sorted(set(answer.instances) - {node.name for node in batch}):
                raise ProviderFault(f"DescribeInstances answers about {unasked[0]!r}, which was not in the query")
            found |= {by_name[name]: codec.decode_instance(one) for name, one in answer.instances.items()}
        return found

    async def exists(self, provider_id: str, node: Node) -> bool:
        if not self.recognises(provider_id):
            raise ForeignId(provider_id, f"this manager answers for {', '.join(sorted(self._platforms))}")
        answer = (await self.which_exist({provider_id: node})).get(provider_id)
        if answer is None:
            raise CloudUnavailable(f"the cloud cannot say whether {provider_id} exists")
        return answer

    async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
        answers: dict[str, bool] = {}
        asked = [node for provider_id, node in nodes.items() if self.recognises(provider_id)]
        for batch in codec.batches(asked):
            answer = await self._channel.call("InstancesExist", message("InstancesExistRequest")(nodes=batch))
            for provider_id, existence in answer.instances.items():
                if existence in {_EXISTS, _GONE}:
                    answers[provider_id] = existence == _EXISTS
        return answers


class _Routes:
    def __init__(self, channel: ExternalChannel) -> None:
        self._channel = channel

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        request = message("ListRoutesRequest")(cluster_name=cluster_name, nodes=_targets(nodes))
        return [codec.decode_route(one) for one in (await self._channel.call("ListRoutes", request)).routes]

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        request = message("CreateRouteRequest")(
            cluster_name=cluster_name,
            name_hint=name_hint,
            route=codec.encode_route(route),
            node=codec.encode_node(node),
        )
        await self._channel.call("CreateRoute", request)

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        request = message("DeleteRouteRequest")(cluster_name=cluster_name, route=codec.encode_route(route))
        await self._channel.call("DeleteRoute", request)


class _LoadBalancers:
    def __init__(self, channel: ExternalChannel) -> None:
        self._channel = channel

    def get_load_balancer_name(self, cluster_name: str, service: Service) -> str:
        del cluster_name
        return codec.load_balancer_name(service)

    async def get_load_balancer(self, cluster_name: str, service: Service) -> LoadBalancerStatus | None:
        answer = await self._call("GetLoadBalancer", cluster_name, service)
        return codec.decode_status(answer.status) if answer.HasField("status") else None

    async def ensure_load_balancer(
        self, cluster_name: str, service: Service, nodes: Sequence[Node]
    ) -> LoadBalancerStatus:
        answer = await self._call("EnsureLoadBalancer", cluster_name, service, nodes=_targets(nodes))
        match answer.WhichOneof("outcome"):
            case "status":
                return codec.decode_status(answer.status)
            case "retry_after_seconds":
                raise NotReadyYet("the load balancer is being made", retry_after_seconds=answer.retry_after_seconds)
            case "implemented_elsewhere":
                raise ImplementedElsewhere("another controller handles load balancers of this cloud")
            case _:
                raise ProviderFault("EnsureLoadBalancer was answered without an outcome")

    async def update_load_balancer(self, cluster_name: str, service: Service, nodes: Sequence[Node]) -> None:
        await self._call("UpdateLoadBalancer", cluster_name, service, nodes=_targets(nodes))

    async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
        await self._call("DeleteLoadBalancer", cluster_name, service)

    async def _call(self, method: str, cluster_name: str, service: Service, **more: Any) -> Any:
        request = message(f"{method}Request")(cluster_name=cluster_name, service=codec.encode_service(service), **more)
        return await self._channel.call(method, request)


def _targets(nodes: Sequence[Node]) -> list[Any]:
    return [codec.encode_node(node, whole=False) for node in nodes]
