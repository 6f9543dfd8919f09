"""Writes a cordon: read, decide, write, and retry after a conflict.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/cordon.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base import logs
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.requests import WriteOptions
from kube_fairlead.drivers.sdk.driver import Refused
from kube_fairlead.lifecycle.drain import cordons

__all__ = ["cordon", "forget", "read_node", "uncordon"]

_ATTEMPTS: Final = 20

_log = logs.get_logger(__name__)


async def read_node(client: Client, name: str, uid: str) -> Node:
    """The node, if it has this uid.

    Raises:
        Refused: it is gone, or another node has its name now.
    """
    try:
        node = await client.of(Node).get(name)
    except api_errors.NotFound:
        raise Refused(f"node {name} no longer exists") from None
    if uid and node.uid != uid:
        raise Refused(f"node {name} was replaced by another of the same name")
    return node


async def cordon(client: Client, name: str, uid: str, event_name: str) -> None:
    """Cordon a node, unless it is cordoned already."""
    await _write(client, name, uid, lambda node: cordons.cordon(node, event_name))


async def uncordon(client: Client, name: str, uid: str, *, force: bool) -> None:
    """Remove the cordon that Fairlead set.

    Raises:
        Refused: another user cordoned the node, and `force` is not set.
    """

    def patch(node: Node) -> dict[str, Any] | None:
        if cordons.foreign_cordon(node) and not force:
            raise Refused(cordons.refusal(node))
        return cordons.uncordon(node)

    await _write(client, name, uid, patch)


async def forget(client: Client, name: str, uid: str) -> None:
    """Remove our annotation from a node that a user uncordoned. It does no harm, so a failure is only logged."""
    try:
        await _write(client, name, uid, cordons.clear_annotation)
    except (Refused, api_errors.ApiError, client_errors.ClientError) as error:
        _log.info("cordon annotation not removed", node=name, error=str(error))


async def _write(client: Client, name: str, uid: str, decide: Callable[[Node], dict[str, Any] | None]) -> None:
    for attempt in range(_ATTEMPTS):
        patch = decide(await read_node(client, name, uid))
        if patch is None:
            return
        try:
            await client.of(Node).patch(
                name, MergePatch(patch), options=WriteOptions(field_manager=cordons.FIELD_MANAGER)
            )
        except api_errors.Conflict:
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return
