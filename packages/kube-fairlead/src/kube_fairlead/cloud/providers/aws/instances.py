"""EC2 instances."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kube_fairlead.api.core_v1 import Node, NodeAddress
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import logs
from kube_fairlead.cloud.errors import CloudUnavailable, ForeignId
from kube_fairlead.cloud.parallel import for_each
from kube_fairlead.cloud.provider import Instance, InstanceQuery
from kube_fairlead.cloud.providers.aws import ids
from kube_fairlead.cloud.providers.aws.client import AwsClient, AwsError
from kube_fairlead.cloud.providers.aws.config import AwsConfig

__all__ = ["AwsInstances", "to_instance"]

# Amazon's limit on the values of one filter, and on the instances of one page.
_FILTER_VALUES = 200
_PAGE = 1000
# From here on it is fewer calls to list what bears the cluster's tag.
_LIST_FROM = 4 * _FILTER_VALUES
_CONCURRENT_CALLS = 4
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_GONE = "terminated"
_ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")

_log = logs.get_logger(__name__)


class AwsInstances:
    """Answers about instances of one region."""

    def __init__(self, client: AwsClient, config: AwsConfig) -> None:
        self._client = client
        self._config = config

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """By instance id, else by private DNS name, which is what Amazon's nodes are called."""
        by_id: dict[str, list[InstanceQuery]] = {}
        by_name: dict[str, list[InstanceQuery]] = {}
        for query in queries:
            if wanted := _wanted_id(query):
                by_id.setdefault(wanted, []).append(query)
            elif not query.provider_id:
                by_name.setdefault(query.node_name, []).append(query)
        found: dict[InstanceQuery, Instance] = {}
        for raw in await self._by_id(list(by_id)):
            found |= dict.fromkeys(by_id.get(raw["InstanceId"], ()), to_instance(raw, self._config.region))
        for name, raw in (await self._by_name(list(by_name))).items():
            found |= dict.fromkeys(by_name[name], to_instance(raw, self._config.region))
        return found

    def recognises(self, provider_id: str) -> bool:
        """Whether it names an instance."""
        return ids.is_instance(provider_id)

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Describe this very instance."""
        del node
        instance = ids.instance_id(provider_id)
        states = await self._states([instance])
        if instance not in states:
            raise CloudUnavailable(f"an empty answer about {provider_id}, which says nothing")
        return states[instance] != _GONE

    async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
        """Describe these very instances."""
        by_instance: dict[str, list[str]] = {}
        for provider_id in nodes:
            if ids.is_instance(provider_id):
                by_instance.setdefault(ids.instance_id(provider_id), []).append(provider_id)
        instances = list(by_instance)
        answers: dict[str, bool] = {}

        async def ask(part: Sequence[str]) -> None:
            for instance, state in (await self._states(part)).items():
                answers.update(dict.fromkeys(by_instance.get(instance, ()), state != _GONE))

        parts = [instances[start : start + _PAGE] for start in range(0, len(instances), _PAGE)]
        await for_each(parts, ask, workers=_CONCURRENT_CALLS, owner="aws-exists")
        return answers

    async def _states(self, instances: Sequence[str]) -> dict[str, str]:
        """The states of these very instances; those that Amazon does not know any more are gone too."""
        states: dict[str, str] = {}
        wanted = list(instances)
        while wanted:
            try:
                answer = await self._client.call("ec2", "describe_instances", InstanceIds=wanted)
            except AwsError as error:
                unknown = _unknown_instances(error, wanted)
                states |= dict.fromkeys(unknown, _GONE)
                wanted = [one for one in wanted if one not in unknown]
            else:
                found = _flat(answer.get("Reservations") or [])
                return states | {raw["InstanceId"]: raw["State"]["Name"] for raw in found}
        return states

    async def _by_name(self, names: Sequence[str]) -> dict[str, Json]:
        """By private DNS name, which is unique in one network only: what is not the cluster's does not count."""
        limits: list[Json] = []
        if self._config.vpc:
            limits.append({"Name": "vpc-id", "Values": [self._config.vpc]})
        if self._config.cluster_tag:
            limits.append({"Name": "tag-key", "Values": [self._config.cluster_tag]})
        found: dict[str, list[Json]] = {name: [] for name in names}
        for raw in await self._filtered("private-dns-name", names, *limits):
            found.setdefault(raw.get("PrivateDnsName", ""), []).append(raw)
        for name in names:
            if len(found[name]) > 1:
                several = sorted(raw["InstanceId"] for raw in found[name])
                _log.warning("several instances have the name of one node, using none", node=name, instances=several)
        return {name: found[name][0] for name in names if len(found[name]) == 1}

    async def _by_id(self, wanted: Sequence[str]) -> list[Json]:
        if len(wanted) < _LIST_FROM or not self._config.cluster_tag:
            return await self._filtered("instance-id", wanted)
        listed = await self._pages([{"Name": "tag-key", "Values": [self._config.cluster_tag]}])
        # Instances without the tag are nodes too.
        missing = set(wanted) - {raw["InstanceId"] for raw in listed}
        return listed + await self._filtered("instance-id", sorted(missing))

    async def _filtered(self, name: str, values: Sequence[str], *limits: Json) -> list[Json]:
        found: list[Json] = []

        async def ask(part: Sequence[str]) -> None:
            found.extend(await self._pages([{"Name": name, "Values": list(part)}, *limits]))

        parts = [values[start : start + _FILTER_VALUES] for start in range(0, len(values), _FILTER_VALUES)]
        await for_each(parts, ask, workers=_CONCURRENT_CALLS, owner="aws-describe")
        return found

    async def _pages(self, filters: list[Json]) -> list[Json]:
        alive = {"Name": "instance-state-name", "Values": list(_ALIVE)}
        pages = await self._client.pages(
            "ec2", "describe_instances", "Reservations", Filters=[*filters, alive], MaxResults=_PAGE
        )
        return list(_flat(pages))


def to_instance(raw: Json, region: str) -> Instance:
    """What an instance is to Kubernetes."""
    placement = raw.get("Placement") or {}
    zone = placement.get("AvailabilityZone") or ""
    zone_id = placement.get("AvailabilityZoneId")
    return Instance(
        provider_id=ids.provider_id(zone, raw["InstanceId"]),
        shutdown=raw["State"]["Name"] == "stopped",
        instance_type=raw.get("InstanceType") or "",
        addresses=tuple(dict.fromkeys(_addresses(raw))),
        zone=zone,
        region=region,
        additional_labels={"topology.k8s.aws/zone-id": zone_id} if zone_id else {},
    )


def _addresses(raw: Json) -> Iterator[NodeAddress]:
    interfaces = sorted(
        raw.get("NetworkInterfaces") or [], key=lambda one: (one.get("Attachment") or {}).get("DeviceIndex", 0)
    )
    private = [entry.get("PrivateIpAddress") for one in interfaces for entry in one.get("PrivateIpAddresses") or []]
    six = [entry.get("Ipv6Address") for one in interfaces for entry in one.get("Ipv6Addresses") or []]
    named = raw.get("PrivateDnsName")
    yield from _of_type("InternalIP", [raw.get("PrivateIpAddress"), *private, *six])
    yield from _of_type("ExternalIP", [raw.get("PublicIpAddress")])
    yield from _of_type("InternalDNS", [named])
    yield from _of_type("Hostname", [named])
    yield from _of_type("ExternalDNS", [raw.get("PublicDnsName")])


def _of_type(kind: str, values: Iterable[str | None]) -> Iterator[NodeAddress]:
    for value in values:
        if value:
            yield NodeAddress(type=kind, address=value)


def _wanted_id(query: InstanceQuery) -> str:
    if not query.provider_id:
        return ids.instance_id_of_name(query.node_name)
    try:
        return ids.instance_id(query.provider_id)
    except ForeignId:
        return ""  # not found, which proves nothing


def _unknown_instances(error: AwsError, asked: Sequence[str]) -> set[str]:
    """Those of the instances that Amazon named when it refused to answer about all of them.

    Raises:
        ForeignId: it could not read an id.
        AwsError: it refused for another reason, or did not say which it means.
    """
    if error.code == "InvalidInstanceID.Malformed":
        raise ForeignId(", ".join(asked), str(error)) from error
    named = set(asked) if len(asked) == 1 else set(_INSTANCE.findall(str(error))) & set(asked)
    if error.code != "InvalidInstanceID.NotFound" or not named:
        raise error
    return named


def _flat(reservations: Iterable[Json]) -> Iterator[Json]:
    return itertools.chain.from_iterable(one.get("Instances") or [] for one in reservations)
