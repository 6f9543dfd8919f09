"""Informers that the hollow components of one process share: one watch of pods, not six."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar

from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.base import tasks
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer

__all__ = ["BY_CONTROLLER", "BY_NODE", "Caches"]

_O = TypeVar("_O", bound=KubeObject)

BY_NODE = "node"
BY_CONTROLLER = "controller"  # index by the uid of the controlling owner


class Caches:
    """The shared informers. Create them before `running`; later ones start at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[type[Any], Informer[Any]] = {}
        self._scope: tasks.TaskScope | None = None
        # Pods and nodes are many and read-only here.
        self.pods: Informer[Pod] = Informer(
            client.of(Pod, keep=False),
            indexes={
                BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
                BY_CONTROLLER: lambda pod: (owner.uid,) if (owner := pod.metadata.controller) else (),
            },
        )
        self.nodes: Informer[Node] = Informer(client.of(Node, keep=False))

    def of(self, kind: type[_O]) -> Informer[_O]:
        """Return the informer of another kind, with whole objects."""
        if kind not in self._informers:
            informer = Informer(self._client.of(kind), indexes={BY_CONTROLLER: _controller_uid})
            self._informers[kind] = informer
            if self._scope is not None:
                self._scope.start(informer.run(), name=kind.__name__)
        found: Informer[_O] = self._informers[kind]
        return found

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the informers for the duration of the block."""
        async with tasks.TaskScope("hollow/caches", on_exit=tasks.OnExit.CANCEL) as scope:
            self._scope = scope
            scope.start(self.pods.run(), name="pods")
            scope.start(self.nodes.run(), name="nodes")
            for kind, informer in self._informers.items():
                scope.start(informer.run(), name=kind.__name__)
            try:
                yield self
            finally:
                self._scope = None


def _controller_uid(item: KubeObject) -> tuple[str, ...]:
    owner = item.metadata.controller
    return (owner.uid,) if owner else ()
