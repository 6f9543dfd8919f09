"""Which nodes the cloud has answered for by their id: only these get routes and load balancers.

An annotation is a claim of an account that writes to nodes, and so is a providerID that a kubelet was started with. The
cloud's answer is the proof. It is kept for a term: what a machine is behind an id does not change, and when the machine
is gone, its node's routes and targets go with the node.

Invariants:
1. A node is confirmed only by an answer of the cloud about the id that it has, or that gave it that id.
2. No answer is no denial: a failed query is an error, and then nothing is changed.
3. A node that the cloud did not know is queried again after a growing pause.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.cloud.ownership import owned_by_id

__all__ = ["Confirmations"]

_PAUSE = Backoff(initial_seconds=10.0, factor=2.0, cap_seconds=300.0, jitter=0.2)


@dataclasses.dataclass(slots=True)
class _Denied:
    """A node whose id the cloud did not know."""

    provider_id: str
    attempts: int
    ask_at: float


class Confirmations:
    """What one term has learned. A node is known by its uid and its id: one of the same name is another."""

    def __init__(self, platforms: Collection[str], *, clock: Clock, randomness: Randomness) -> None:
        self._platforms = platforms
        self._clock = clock
        self._randomness = randomness
        self._confirmed: dict[str, str] = {}  # uid -> providerID
        self._denied: dict[str, _Denied] = {}  # by uid
        self._listeners: list[Callable[[Node], None]] = []

    def add_listener(self, listener: Callable[[Node], None]) -> None:
        """Call this for every node that is confirmed from now on."""
        self._listeners.append(listener)

    def answered(self, asked: Iterable[Node], found: Collection[str]) -> None:
        """The cloud has answered about these nodes, and knows those of these names."""
        for node in asked:
            # What was looked up by its name is not known by its id.
            if node.spec.provider_id and node.name in found:
                self.confirm(node)
            elif owned_by_id(node, self._platforms) and not self.has(node):
                self._deny(node)

    def confirm(self, node: Node) -> None:
        """The cloud knows this node by its id."""
        if not owned_by_id(node, self._platforms):
            return
        self._denied.pop(node.uid, None)
        if self._confirmed.get(node.uid) != node.spec.provider_id:
            self._confirmed[node.uid] = node.spec.provider_id
            for listener in self._listeners:
                listener(node)

    def forget(self, node: Node) -> None:
        """The node is gone."""
        self._confirmed.pop(node.uid, None)
        self._denied.pop(node.uid, None)

    def has(self, node: Node) -> bool:
        """Whether the cloud has confirmed it. Without platforms there is a single cloud, and every node is its own."""
        if not self._platforms:
            return True
        return owned_by_id(node, self._platforms) and self._confirmed.get(node.uid) == node.spec.provider_id

    def due(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of these nodes that the cloud must confirm."""
        return [node for node in nodes if self._is_due(node)]

    def _is_due(self, node: Node) -> bool:
        if self.has(node) or not owned_by_id(node, self._platforms):
            return False
        denied = self._denied.get(node.uid)
        return denied is None or denied.provider_id != node.spec.provider_id or denied.ask_at <= self._clock.monotonic()

    def _deny(self, node: Node) -> None:
        before = self._denied.get(node.uid)
        attempts = before.attempts + 1 if before is not None and before.provider_id == node.spec.provider_id else 0
        ask_at = self._clock.monotonic() + _PAUSE.delay(attempts, self._randomness)
        self._denied[node.uid] = _Denied(node.spec.provider_id, attempts, ask_at)
