"""What the node controller does: initialise what is new, keep labels right, leave the rest alone. Pure.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/node/node_controller.go,
    k8s.io/cloud-provider@v0.36.4/node/helpers/labels.go
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping

from kube_fairlead.api.core_v1 import Node, Taint
from kube_fairlead.cloud import addresses, wellknown
from kube_fairlead.cloud.ownership import Ownership, owned_by_id, ownership, platform_of, platform_of_provider_id
from kube_fairlead.cloud.provider import Instance

__all__ = ["AskCloud", "CannotInitialise", "Initialise", "LeaveAlone", "Relabel", "first_step", "initialise"]

# Kubernetes' own namespaces are not for a cloud to fill.
_KUBERNETES_KEY = re.compile(r"(^|\.)(kubernetes|k8s)\.io/")
# The older label is the source of truth, as upstream has it.
_BETA_TO_GA = (
    (wellknown.LABEL_ZONE_BETA, wellknown.LABEL_ZONE),
    (wellknown.LABEL_REGION_BETA, wellknown.LABEL_REGION),
    (wellknown.LABEL_INSTANCE_TYPE_BETA, wellknown.LABEL_INSTANCE_TYPE),
)


class CannotInitialise(Exception):
    """Raised when what the cloud said does not do; the node stays as it is and is tried again."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Nothing to do."""

    because: str


@dataclasses.dataclass(frozen=True, slots=True)
class AskCloud:
    """The node waits to be initialised: only the cloud knows with what."""


@dataclasses.dataclass(frozen=True, slots=True)
class Relabel:
    """Labels that are missing or differ."""

    labels: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Initialise:
    """What an initialised node has: labels to set, taints that stay, and its id if it had none."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    provider_id: str  # empty: it has one


def first_step(node: Node, platforms: Collection[str]) -> LeaveAlone | AskCloud | Relabel:
    """What a node needs, before the cloud is queried."""
    whose = ownership(node, platforms)
    if whose is Ownership.FOREIGN:
        return LeaveAlone("it belongs to another platform")
    if wellknown.has_taint(node, wellknown.TAINT_UNINITIALIZED):
        return AskCloud()
    if whose is Ownership.UNKNOWN:
        return LeaveAlone("it names no platform and does not wait for a cloud")
    if not owned_by_id(node, platforms):
        return LeaveAlone("it names a platform by annotation alone and does not wait for a cloud")
    labels = {
        ga: node.metadata.labels[beta]
        for beta, ga in _BETA_TO_GA
        if beta in node.metadata.labels and node.metadata.labels.get(ga) != node.metadata.labels[beta]
    }
    labels |= _platform_label(node, platform_of(node), platforms)
    return Relabel(labels) if labels else LeaveAlone("it is initialised")


def initialise(node: Node, instance: Instance, platforms: Collection[str]) -> Initialise:
    """What a node that waits becomes, now that the cloud has answered for it.

    Raises:
        CannotInitialise: the answer lacks an id, or has one of a platform that is not ours.
        AddressMismatch: the kubelet was given an address that the cloud does not know.
    """
    provider_id = node.spec.provider_id or instance.provider_id
    if not provider_id:
        raise CannotInitialise(f"cloud provider does not set node provider ID for node {node.name}")
    platform = platform_of_provider_id(provider_id)
    if platforms and platform not in platforms:
        raise CannotInitialise(
            f"cloud provider answered for node {node.name} with provider ID {provider_id[:200]!r}, "
            f"which is of none of its platforms ({', '.join(sorted(platforms))})"
        )
    addresses.node_addresses(node, instance.addresses)
    return Initialise(
        labels=_instance_labels(node, instance) | _platform_label(node, platform, platforms),
        taints=wellknown.without_taint(node, wellknown.TAINT_UNINITIALIZED),
        provider_id="" if node.spec.provider_id else provider_id,
    )


def _instance_labels(node: Node, instance: Instance) -> dict[str, str]:
    labels: dict[str, str] = {}
    if instance.instance_type:
        labels[wellknown.LABEL_INSTANCE_TYPE_BETA] = labels[wellknown.LABEL_INSTANCE_TYPE] = instance.instance_type
    if instance.zone:
        labels[wellknown.LABEL_ZONE_BETA] = labels[wellknown.LABEL_ZONE] = instance.zone
    if instance.region:
        labels[wellknown.LABEL_REGION_BETA] = labels[wellknown.LABEL_REGION] = instance.region
    more = {
        key: value
        for key, value in instance.additional_labels.items()
        if key not in node.metadata.labels and not _KUBERNETES_KEY.search(key)
    }
    return labels | more


def _platform_label(node: Node, platform: str, platforms: Collection[str]) -> dict[str, str]:
    # Without platforms nothing is new: a single cloud's nodes need no distinction.
    if not platforms or not platform or node.metadata.labels.get(wellknown.LABEL_PLATFORM) == platform:
        return {}
    return {wellknown.LABEL_PLATFORM: platform}
