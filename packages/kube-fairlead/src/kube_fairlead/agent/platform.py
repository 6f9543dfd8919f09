"""Annotate the Node with its cloud, for a node whose cloud sets no providerID. The kubelet cannot do that."""

from __future__ import annotations

import asyncio
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.patches import MergePatch

__all__ = ["annotate_platform"]

_RETRY: Final = Backoff(initial_seconds=1.0, factor=2.0, cap_seconds=60.0, jitter=0.3)

_log = logs.get_logger(__name__)


async def annotate_platform(client: Client, node_name: str, platform: str) -> None:
    """Set the annotation whenever the node exists and lacks it. Runs until cancelled."""
    wake = asyncio.Event()
    informer = Informer(client.of(Node, keep=False), field_selector=f"metadata.name={node_name}")
    informer.add_handler(Handler(on_add=lambda _node: wake.set(), on_update=lambda _old, _new: wake.set()))
    delays = _RETRY.delays(client.randomness)
    async with informer.running():
        while True:
            await wake.wait()
            wake.clear()
            node = informer.store.get(node_name)
            if node is None or node.metadata.annotations.get(ANNOTATION_PLATFORM) == platform:
                continue
            try:
                await _annotate(client, node, platform)
                delays.reset()
            except (api_errors.ApiError, client_errors.ClientError) as error:
                _log.warning("cannot annotate the node's platform", platform=platform, error=str(error))
                await client.clock.sleep(next(delays))
                wake.set()


async def _annotate(client: Client, node: Node, platform: str) -> None:
    body = {"metadata": {"uid": node.uid, "annotations": {ANNOTATION_PLATFORM: platform}}}
    await client.of(Node).patch(node.name, MergePatch(body))
