"""Amazon's ids, pure: `aws:///us-east-1a/i-0123456789abcdef0`."""

from __future__ import annotations

import re

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud.errors import ForeignId

__all__ = ["instance_id", "instance_id_of_name", "instance_id_of_node", "is_instance", "provider_id"]

# Zone and account are optional in kubelets' --provider-id; the instance is what counts.
_PROVIDER_ID = re.compile(r"aws://(?:/?[a-z0-9-]+)?/(?P<instance>i-[0-9a-f]{8,17})")
_INSTANCE_NAME = re.compile(r"(?P<instance>i-[0-9a-f]{8,17})(?:\..*)?")


def instance_id(provider_id: str) -> str:
    """The instance that a providerID names.

    Raises:
        ForeignId: it names none.
    """
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise ForeignId(provider_id, "it should look like aws:///<zone>/<instance id>")
    return match["instance"]


def is_instance(provider_id: str) -> bool:
    """Whether a providerID names an instance."""
    return _PROVIDER_ID.fullmatch(provider_id) is not None


def instance_id_of_node(node: Node) -> str:
    """The instance that a node runs on, as far as the node says; empty when it does not."""
    try:
        return instance_id(node.spec.provider_id)
    except ForeignId:
        return ""


def instance_id_of_name(node_name: str) -> str:
    """The instance that a node is named after (`i-0123456789abcdef0.us-east-2.compute.internal`); empty if none."""
    match = _INSTANCE_NAME.fullmatch(node_name)
    return match["instance"] if match else ""


def provider_id(zone: str, instance: str) -> str:
    """The providerID of an instance."""
    return f"aws:///{zone}/{instance}"
