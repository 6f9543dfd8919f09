"""Network load balancers: one per Service, a target group and a listener per port.

What is made is named after the Service's uid, so that everything can be found again, and removed, knowing only that.
Security groups are the administrator's: node ports must be open to the load balancer's subnets. A Service that limits
its sources is rejected rather than served to all sources; one that begins to is closed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Sequence

from kube_fairlead.api.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service, ServicePort
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import logs
from kube_fairlead.cloud.errors import CloudRefused, NotReadyYet
from kube_fairlead.cloud.providers.aws import ids
from kube_fairlead.cloud.providers.aws.client import AwsClient, AwsError
from kube_fairlead.cloud.providers.aws.config import AwsConfig

__all__ = ["AwsLoadBalancers", "load_balancer_name", "target_group_name"]

_ANNOTATION_INTERNAL = "service.beta.kubernetes.io/aws-load-balancer-internal"
_ANNOTATION_SUBNETS = "service.beta.kubernetes.io/aws-load-balancer-subnets"
_EVERYWHERE = frozenset({"0.0.0.0/0", "::/0"})
_TAG_SERVICE = "kubernetes.io/service-name"
_POLL_SECONDS = 10.0
# Amazon's limit on the target groups of one page.
_PAGE = 400
_NO_GROUP = frozenset({"TargetGroupNotFound", "TargetGroupNotFoundException"})

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Made:
    """What there is of a load balancer."""

    arn: str
    vpc: str
    status: LoadBalancerStatus


class AwsLoadBalancers:
    """Makes, changes and removes load balancers."""

    def __init__(self, client: AwsClient, config: AwsConfig) -> None:
        self._client = client
        self._config = config

    def get_load_balancer_name(self, cluster_name: str, service: Service) -> str:
        """As upstream has it, from the Service's uid."""
        del cluster_name
        return load_balancer_name(service)

    async def get_load_balancer(self, cluster_name: str, service: Service) -> LoadBalancerStatus | None:
        """Where it is reached, if it exists."""
        del cluster_name
        made = await self._find(service)
        return made.status if made is not None else None

    async def ensure_load_balancer(
        self, cluster_name: str, service: Service, nodes: Sequence[Node]
    ) -> LoadBalancerStatus:
        """The load balancer, then what each port needs, then away with what no port needs any more."""
        if refusal := _refusal_of_sources(service):
            # The restriction came later: an open load balancer must not wait until a user reads the Event.
            await self._close(service)
            raise CloudRefused(refusal)
        _check(service)
        made = await self._find(service) or await self._create(cluster_name, service)
        listeners = {(listener["Protocol"], listener["Port"]): listener for listener in await self._listeners(made.arn)}
        instances = _instances_of(nodes)
        for port in service.spec.ports:
            group = await self._ensure_group(cluster_name, service, port, made.vpc)
            await self._ensure_listener(made.arn, port, group, listeners.pop((port.protocol, port.port), None))
            await self._ensure_targets(group, port, instances)
        for stale in listeners.values():
            await self._client.call("elbv2", "delete_listener", ListenerArn=stale["ListenerArn"])
        wanted = {target_group_name(service, port) for port in service.spec.ports}
        await self._delete_groups(service, but=wanted)
        if not made.status.ingress:
            raise NotReadyYet("the load balancer has no name yet", retry_after_seconds=_POLL_SECONDS)
        return made.status

    async def update_load_balancer(self, cluster_name: str, service: Service, nodes: Sequence[Node]) -> None:
        """Bring the targets in line."""
        made = await self._find(service)
        if made is None:
            raise CloudRefused(f"there is no load balancer for {service.key}")
        instances = _instances_of(nodes)
        for port in service.spec.ports:
            group = await self._ensure_group(cluster_name, service, port, made.vpc)
            await self._ensure_targets(group, port, instances)

    async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
        """The load balancer with its listeners, then its target groups."""
        del cluster_name
        made = await self._find(service)
        if made is not None:
            await self._client.call("elbv2", "delete_load_balancer", LoadBalancerArn=made.arn)
        await self._delete_groups(service)

    async def _close(self, service: Service) -> None:
        """Take the listeners away; what else there is stays for when they come back."""
        made = await self._find(service)
        for listener in await self._listeners(made.arn) if made is not None else ():
            await self._client.call("elbv2", "delete_listener", ListenerArn=listener["ListenerArn"])

    async def _listeners(self, load_balancer: str) -> list[Json]:
        return await self._client.pages("elbv2", "describe_listeners", "Listeners", LoadBalancerArn=load_balancer)

    async def _find(self, service: Service) -> _Made | None:
        try:
            answer = await self._client.call("elbv2", "describe_load_balancers", Names=[load_balancer_name(service)])
        except AwsError as error:
            if error.code in {"LoadBalancerNotFound", "LoadBalancerNotFoundException"}:
                return None
            raise
        return _made(answer["LoadBalancers"][0]) if answer.get("LoadBalancers") else None

    async def _create(self, cluster_name: str, service: Service) -> _Made:
        internal = service.metadata.annotations.get(_ANNOTATION_INTERNAL, "").lower() == "true"
        answer = await self._client.call(
            "elbv2",
            "create_load_balancer",
            Name=load_balancer_name(service),
            Type="network",
            Scheme="internal" if internal else "internet-facing",
            Subnets=await self._subnets(service, internal=internal),
            Tags=self._tags(cluster_name, service),
        )
        return _made(answer["LoadBalancers"][0])

    async def _subnets(self, service: Service, *, internal: bool) -> list[str]:
        asked = service.metadata.annotations.get(_ANNOTATION_SUBNETS, "")
        if chosen := [part.strip() for part in asked.split(",") if part.strip()] or list(self._config.subnets):
            return chosen
        role = "kubernetes.io/role/internal-elb" if internal else "kubernetes.io/role/elb"
        filters: list[Json] = [{"Name": "tag-key", "Values": [role]}]
        if self._config.vpc:
            filters.append({"Name": "vpc-id", "Values": [self._config.vpc]})
        tagged = await self._client.pages("ec2", "describe_subnets", "Subnets", Filters=filters)
        # One of each zone is what a load balancer takes.
        by_zone = {one["AvailabilityZone"]: one["SubnetId"] for one in sorted(tagged, key=lambda one: one["SubnetId"])}
        if not by_zone:
            raise CloudRefused(f"no subnets: set SubnetID in --cloud-config, annotate the Service, or tag some {role}")
        return [by_zone[zone] for zone in sorted(by_zone)]

    async def _ensure_group(self, cluster_name: str, service: Service, port: ServicePort, vpc: str) -> str:
        name = target_group_name(service, port)
        group = await self._find_group(name)
        if group is None:
            answer = await self._client.call(
                "elbv2",
                "create_target_group",
                Name=name,
                Protocol=port.protocol,
                Port=port.node_port,
                VpcId=vpc,
                TargetType="instance",
                Tags=self._tags(cluster_name, service),
                **_health_check(service),
            )
            group = answer["TargetGroups"][0]
        arn, check = str(group["TargetGroupArn"]), _health_check(service)
        if any(group.get(key) != value for key, value in check.items()):
            await self._client.call("elbv2", "modify_target_group", TargetGroupArn=arn, **check)
        sticky = "true" if service.spec.session_affinity == "ClientIP" else "false"
        await self._client.call(
            "elbv2",
            "modify_target_group_attributes",
            TargetGroupArn=arn,
            Attributes=[
                {"Key": "stickiness.enabled", "Value": sticky},
                {"Key": "stickiness.type", "Value": "source_ip"},
            ],
        )
        return arn

    async def _find_group(self, name: str) -> Json | None:
        try:
            answer = await self._client.call("elbv2", "describe_target_groups", Names=[name])
        except AwsError as error:
            if error.code in _NO_GROUP:
                return None
            raise
        found = answer.get("TargetGroups") or []
        return found[0] if found else None

    async def _ensure_listener(self, load_balancer: str, port: ServicePort, group: str, known: Json | None) -> None:
        actions = [{"Type": "forward", "TargetGroupArn": group}]
        if known is None:
            await self._client.call(
                "elbv2",
                "create_listener",
                LoadBalancerArn=load_balancer,
                Protocol=port.protocol,
                Port=port.port,
                DefaultActions=actions,
            )
        elif [action.get("TargetGroupArn") for action in known.get("DefaultActions") or []] != [group]:
            await self._client.call(
                "elbv2", "modify_listener", ListenerArn=known["ListenerArn"], DefaultActions=actions
            )

    async def _ensure_targets(self, group: str, port: ServicePort, wanted: set[str]) -> None:
        answer = await self._client.call("elbv2", "describe_target_health", TargetGroupArn=group)
        present = {
            one["Target"]["Id"]
            for one in answer.get("TargetHealthDescriptions") or []
            if one.get("TargetHealth", {}).get("State") != "draining"
        }
        if gone := sorted(present - wanted):
            targets = [{"Id": one, "Port": port.node_port} for one in gone]
            await self._client.call("elbv2", "deregister_targets", TargetGroupArn=group, Targets=targets)
        if new := sorted(wanted - present):
            await self._register(group, [{"Id": one, "Port": port.node_port} for one in new])

    async def _register(self, group: str, targets: list[Json]) -> None:
        try:
            await self._client.call("elbv2", "register_targets", TargetGroupArn=group, Targets=targets)
        except AwsError as error:
            if error.code not in {"InvalidTarget", "InvalidTargetException"} or len(targets) == 1:
                raise
            # One instance that is not running must not keep the others out.
            for target in targets:
                try:
                    await self._register(group, [target])
                except AwsError as refused:
                    _log.warning("instance cannot be a target", instance=target["Id"], error=str(refused))

    async def _delete_groups(self, service: Service, *, but: Collection[str] = ()) -> None:
        """Delete what groups there are of a Service.

        A group that no listener leads to any more belongs to no load balancer. So they are found by their names, and,
        because any user may choose these names, by their tags.
        """
        named = {
            str(one["TargetGroupArn"])
            for one in await self._client.pages("elbv2", "describe_target_groups", "TargetGroups", PageSize=_PAGE)
            if one["TargetGroupName"].startswith(_group_prefix(service)) and one["TargetGroupName"] not in but
        }
        for group in sorted(named):
            if await self._is_tagged(group, service):
                await self._delete_group(group)

    async def _is_tagged(self, group: str, service: Service) -> bool:
        try:
            answer = await self._client.call("elbv2", "describe_tags", ResourceArns=[group])
        except AwsError as error:
            if error.code in _NO_GROUP:
                return False
            raise
        tags = {tag["Key"]: tag.get("Value") for one in answer.get("TagDescriptions") or [] for tag in one["Tags"]}
        return tags.get(_TAG_SERVICE) == service.key

    async def _delete_group(self, group: str) -> None:
        try:
            await self._client.call("elbv2", "delete_target_group", TargetGroupArn=group)
        except AwsError as error:
            if error.code == "ResourceInUse":
                raise NotReadyYet(str(error), retry_after_seconds=_POLL_SECONDS) from error
            if error.code not in _NO_GROUP:
                raise

    def _tags(self, cluster_name: str, service: Service) -> list[Json]:
        cluster = self._config.cluster_tag or f"kubernetes.io/cluster/{cluster_name}"
        return [{"Key": cluster, "Value": "owned"}, {"Key": _TAG_SERVICE, "Value": service.key}]


def load_balancer_name(service: Service) -> str:
    """As upstream has it: Amazon allows 32 characters."""
    return f"a{service.uid.replace('-', '')}"[:32]


def target_group_name(service: Service, port: ServicePort) -> str:
    """Of one port. A node port cannot be changed in a target group, so it is part of the name."""
    what = f"{port.protocol}/{port.port}/{port.node_port}"
    return f"{_group_prefix(service)}{hashlib.sha256(what.encode()).hexdigest()[:11]}"


def _group_prefix(service: Service) -> str:
    return f"k8s-{hashlib.sha256(service.uid.encode()).hexdigest()[:16]}-"


def _made(raw: Json) -> _Made:
    name = raw.get("DNSName") or ""
    ingress = (LoadBalancerIngress(hostname=name),) if name else ()
    return _Made(raw["LoadBalancerArn"], raw.get("VpcId") or "", LoadBalancerStatus(ingress=ingress))


def _instances_of(nodes: Sequence[Node]) -> set[str]:
    return {instance for node in nodes if (instance := ids.instance_id_of_node(node))}


def _health_check(service: Service) -> Json:
    if service.spec.external_traffic_policy == "Local":
        port = str(service.spec.health_check_node_port)
        return {"HealthCheckProtocol": "HTTP", "HealthCheckPort": port, "HealthCheckPath": "/healthz"}
    return {"HealthCheckProtocol": "TCP", "HealthCheckPort": "traffic-port"}


def _refusal_of_sources(service: Service) -> str:
    limited = sorted(set(service.spec.load_balancer_source_ranges) - _EVERYWHERE)
    if not limited:
        return ""
    return f"loadBalancerSourceRanges ({', '.join(limited)}) are not supported: limit sources by security groups"


def _check(service: Service) -> None:
    if odd := sorted({port.protocol for port in service.spec.ports} - {"TCP", "UDP"}):
        raise CloudRefused(f"protocol {', '.join(odd)} is not supported by network load balancers")
    if any(not port.node_port for port in service.spec.ports):
        raise CloudRefused("every port needs a node port: do not set allocateLoadBalancerNodePorts to false")
