"""Shared by the workload controllers: the pods of an owner, also new ones, and how to create or delete one.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/controller_utils.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/controller_ref_manager.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.manager import Context
from kube_fairlead_lab.hollow.caches import BY_CONTROLLER, Caches

__all__ = ["OwnedPods", "is_ready", "owner_reference", "pod_from"]

_O = TypeVar("_O", bound=KubeObject)

# A created pod that the watch has not shown by then was deleted again.
_UNSEEN_SECONDS = 30.0


class OwnedPods(Generic[_O]):
    """The pods of all owners of one kind. An owner is reconciled when it or its pods change."""

    def __init__(self, context: Context, caches: Caches, kind: type[_O]) -> None:
        self.client = context.client
        self.owners = caches.of(kind)
        self.queue: WorkQueue[Key] = context.queue()
        self._context = context
        self._caches = caches
        self._kind = kind.__name__
        self._unseen: dict[Key, tuple[Pod, float]] = {}  # created here, but not in the cache yet

    async def run(self, handle: Callable[[_O], Awaitable[float | None]]) -> None:
        """Run until stopped; `handle` reconciles one owner."""
        self.owners.add_handler(
            Handler(on_add=self._owner_changed, on_update=lambda _old, new: self._owner_changed(new))
        )
        self._caches.pods.add_handler(
            Handler(
                on_add=self._pod_changed,
                on_update=lambda _old, new: self._pod_changed(new),
                on_delete=self._pod_changed,
            )
        )

        async def reconcile(key: Key) -> float | None:
            owner = self.owners.store.by_key(key)
            return None if owner is None or owner.deleting else await handle(owner)

        if await self._context.wait_synced(self.owners, self._caches.pods, self._caches.nodes):
            await self._context.reconcile(self.queue, reconcile)

    def of(self, owner: _O) -> list[Pod]:
        """Return the pods of one owner, including new ones."""
        now = self.client.clock.monotonic()
        seen = self._caches.pods.store.by_index(BY_CONTROLLER, owner.uid)
        for key, (_, since) in list(self._unseen.items()):
            if now - since > _UNSEEN_SECONDS:
                del self._unseen[key]
        unseen = [pod for pod, _ in self._unseen.values() if _is_owned(pod, owner)]
        known = {pod.uid for pod in seen}
        return [*seen, *(pod for pod in unseen if pod.uid not in known)]

    async def create(self, tree: dict[str, Any]) -> None:
        """Create a pod, unless one with its name exists."""
        try:
            made = await self.client.of(Pod).create(wire.from_dict(Pod, tree))
        except api_errors.AlreadyExists:
            return
        if self._caches.pods.store.by_key(key_of(made)) is None:
            self._unseen[key_of(made)] = (made, self.client.clock.monotonic())

    async def delete(self, pod: Pod) -> None:
        """Delete a pod."""
        try:
            await self.client.of(Pod).delete(pod.name, namespace=pod.namespace, uid=pod.uid)
        except (api_errors.NotFound, api_errors.Conflict):
            return

    async def write_status(self, owner: _O, status: dict[str, Any]) -> None:
        """Write the owner's status, if it has changed."""
        current = wire.to_dict(owner).get("status", {})
        if all(current.get(field, 0) == value for field, value in status.items()):
            return
        changed = wire.from_dict(type(owner), wire.to_dict(owner) | {"status": current | status})
        try:
            await self.client.of(type(owner)).update_status(changed)
        except (api_errors.NotFound, api_errors.Conflict):
            return  # it has changed meanwhile and is queued again

    def _owner_changed(self, owner: _O) -> None:
        self.queue.add(key_of(owner))

    def _pod_changed(self, pod: Pod) -> None:
        self._unseen.pop(key_of(pod), None)
        owner = pod.metadata.controller
        if owner is not None and owner.kind == self._kind:
            self.queue.add(Key(pod.namespace, owner.name))


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready and not being deleted."""
    condition = pod.condition("Ready")
    return not pod.deleting and condition is not None and condition.status == "True"


def owner_reference(owner: KubeObject) -> dict[str, Any]:
    """Return the owner reference to a controller."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(owner: KubeObject, *, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a pod by the owner's template, with unknown fields, too."""
    template = wire.to_dict(owner)["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.namespace,
            "annotations": annotations,
            "ownerReferences": [owner_reference(owner)],
            **metadata,
            "labels": labels | metadata.get("labels", {}),
        },
        "spec": template["spec"],
    }


def _is_owned(pod: Pod, owner: KubeObject) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.uid == owner.uid
