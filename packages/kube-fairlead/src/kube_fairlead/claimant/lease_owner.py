"""Set the Node as the owner of its Lease, as the kubelet does for its own Lease."""

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

__all__ = ["set_owner_reference"]

# A renewal may conflict with the write; several in a row are unlikely.
_ATTEMPTS: Final = 5

_log = logs.get_logger(__name__)


async def set_owner_reference(client: Client, node_name: str) -> None:
    """Set the Node as owner of its Lease, so that the garbage collector deletes both. Called once per term.

    A failure is only logged: the Lease then remains when the Node is deleted.
    """
    for _ in range(_ATTEMPTS):
        try:
            await _set_owner_once(client, node_name)
        except api_errors.Conflict:
            continue
        except (api_errors.ApiError, client_errors.ClientError, NotLeading) as error:
            _log.debug("cannot set the owner of the node's Lease", node=node_name, error=str(error))
        return


async def _set_owner_once(client: Client, node_name: str) -> None:
    node = await client.of(Node).get(node_name)
    leases = client.of(Lease)
    lease = await leases.get(node_name, namespace=NAMESPACE_NODE_LEASE)
    if any(owner.uid == node.uid for owner in lease.metadata.owner_references):
        return
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
    await leases.update(wire.replace_metadata(lease, owner_references=(owner,)))
