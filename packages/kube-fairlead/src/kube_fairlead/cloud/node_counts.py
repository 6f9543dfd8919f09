"""Counts nodes by ownership and platform, for the metric and for status."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.cloud.ownership import Ownership, ownership, platform_of

__all__ = ["NodeCounts"]

Count = dict[tuple[Ownership, str], int]


class NodeCounts:
    """Keeps `fairlead_cloud_nodes{ownership,platform}` up to date while nodes are added, changed and deleted.

    Only a leader publishes it: the series are removed when the term ends.
    """

    def __init__(self, metrics: Metrics, platforms: Collection[str]) -> None:
        self._platforms = platforms
        self._gauge = metrics.gauge(
            "fairlead_cloud_nodes",
            "Nodes by ownership for this cloud controller manager, and by platform.",
            ("ownership", "platform"),
        )
        self._counted: Count = {}

    @contextlib.contextmanager
    def of(self, nodes: Informer[Node]) -> Iterator[None]:
        """Count these, which have not been read yet, for as long as the block lasts."""
        nodes.add_handler(
            Handler(
                on_add=lambda node: self._add(node, 1),
                on_update=self._replace,
                on_delete=lambda node: self._add(node, -1),
            )
        )
        try:
            yield
        finally:
            self._gauge.clear()

    def _replace(self, old: Node, new: Node) -> None:
        self._add(old, -1)
        self._add(new, 1)

    def _add(self, node: Node, number: int) -> None:
        whose, platform = entry = (ownership(node, self._platforms), platform_of(node))
        self._counted[entry] = self._counted.get(entry, 0) + number
        self._gauge.labels(ownership=whose.value, platform=platform).set(self._counted[entry])
