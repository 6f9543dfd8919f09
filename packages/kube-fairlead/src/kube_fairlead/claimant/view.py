"""The agent's view of its node: informers, overlaid with the agent's own writes until the informers have them.

A decision must never use a state from before the agent's last write. So the response to every write is kept and takes
precedence over an older version of the informer. After a write without a response, the engine reads the object again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Generic, Self, TypeVar

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle import claims

__all__ = ["NodeView"]

_K = TypeVar("_K", bound=KubeObject)


class _Overlay(Generic[_K]):
    """The newest known version of each object, by uid."""

    def __init__(self) -> None:
        self._newer: dict[str, _K] = {}
        self._gone: set[str] = set()

    def of(self, seen: _K) -> _K | None:
        """Return the newest version of an object; None when it was deleted and the informer still has it."""
        if seen.uid in self._gone:
            return None
        newer = self._newer.get(seen.uid)
        if newer is None:
            return seen
        if _version(newer) <= _version(seen):
            del self._newer[seen.uid]
            return seen
        return newer

    def put(self, item: _K) -> None:
        """Keep a response of the server."""
        known = self._newer.get(item.uid)
        if known is None or _version(known) < _version(item):
            self._newer[item.uid] = item

    def remove(self, uid: str) -> None:
        """Note that the server no longer has the object."""
        self._gone.add(uid)
        self._newer.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Forget an object that the informer has removed."""
        self._gone.discard(uid)
        self._newer.pop(uid, None)


class NodeView:
    """One node, the events bound to it, and all transitions."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        on_change: Callable[[], None],
        transitions: Informer[LifecycleTransition],
    ) -> None:
        self.node_name = node_name
        self._on_change = on_change
        self._events = Informer(
            client.of(LifecycleEvent), field_selector=f"spec.bindingNode={node_name}", streaming_list=False
        )
        self._transitions = transitions  # runs for the whole process, also without the Lease
        self._nodes = Informer(client.of(Node, keep=False), field_selector=f"metadata.name={node_name}")
        self._newer_events: _Overlay[LifecycleEvent] = _Overlay()
        self._newer_nodes: _Overlay[Node] = _Overlay()
        self._events.add_handler(self._handler(self._newer_events))
        self._nodes.add_handler(self._handler(self._newer_nodes))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the informers for the time of the block, which begins when they have synced."""
        forget = self._transitions.add_handler(
            Handler(on_add=self._changed, on_update=lambda _old, _new: self._on_change(), on_delete=self._changed)
        )
        try:
            async with self._events.running(), self._nodes.running():
                for informer in (self._events, self._transitions, self._nodes):
                    await informer.wait_synced()
                yield self
        finally:
            forget()

    @property
    def events(self) -> list[LifecycleEvent]:
        """The events bound to the node, in the order of their claims."""
        known = [newest for seen in self._events.store if (newest := self._newer_events.of(seen)) is not None]
        return sorted(known, key=claims.order)

    @property
    def transitions(self) -> Mapping[str, LifecycleTransition]:
        """All transitions, by name."""
        return {transition.name: transition for transition in self._transitions.store}

    @property
    def node(self) -> Node | None:
        """The node; None when it does not exist or is unknown."""
        seen = self._nodes.store.get(self.node_name)
        return None if seen is None else self._newer_nodes.of(seen)

    @property
    def node_is_missing(self) -> bool:
        """Whether the node does not exist; False until the informer has synced."""
        return self._nodes.has_synced and self.node is None

    def event_written(self, event: LifecycleEvent) -> None:
        """Keep this version of an event, a response of the server."""
        self._newer_events.put(event)

    def event_gone(self, uid: str) -> None:
        """Note that the server has no such event."""
        self._newer_events.remove(uid)

    def node_written(self, node: Node) -> None:
        """Keep this version of the node, a response of the server."""
        self._newer_nodes.put(node)

    def _handler(self, overlay: _Overlay[_K]) -> Handler[_K]:
        def deleted(item: _K) -> None:
            overlay.forget(item.uid)
            self._on_change()

        return Handler(on_add=self._changed, on_update=lambda _old, _new: self._on_change(), on_delete=deleted)

    def _changed(self, _item: KubeObject) -> None:
        self._on_change()


def _version(item: KubeObject) -> int:
    # resourceVersions are increasing numbers (KEP-5504); one that is not a number counts as the oldest.
    text = item.metadata.resource_version
    return int(text) if text.isdecimal() else -1
