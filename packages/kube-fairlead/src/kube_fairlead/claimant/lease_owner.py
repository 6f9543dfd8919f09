"""The Lease of a node goes with the node, as the kubelet's own does."""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import OwnerReference
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import logs
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.election import NotLeading

__all__ = ["tie_to_node"]

# The holder renews its Lease meanwhile; twice in a row it hardly does.
_ATTEMPTS: Final = 5

_log = logs.get_logger(__name__)


async def tie_to_node(client: Client, node_name: str) -> None:
    """Name the node as the owner of its Lease, so that both are collected together. For whoever holds it, once a term.

    Nothing depends on it: where it is not possible, a Lease is left behind when its node goes, and no more.
    """
    for _ in range(_ATTEMPTS):
        try:
            await _tie(client, node_name)
        except api_errors.Conflict:
            continue
        except (api_errors.ApiError, client_errors.ClientError, NotLeading) as error:
            _log.debug("the lease of the node has no owner", node=node_name, error=str(error))
        return


async def _tie(client: Client, node_name: str) -> None:
    node = await client.of(Node).get(node_name)
    leases = client.of(Lease)
    lease = await leases.get(node_name, namespace=NAMESPACE_NODE_LEASE)
    if any(owner.uid == node.uid for owner in lease.metadata.owner_references):
        return
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
    await leases.update(wire.replace_metadata(lease, owner_references=(owner,)))
