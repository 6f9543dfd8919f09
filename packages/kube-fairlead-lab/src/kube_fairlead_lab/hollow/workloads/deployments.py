"""Deployments: a ReplicaSet per template, and a rolling update from the old ones to the new one.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/deployment/rolling.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/deployment/recreate.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/deployment/sync.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/deployment/util/deployment_util.go
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import Deployment, ReplicaSet
from kube_fairlead.api.parts import IntOrString
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client import patches
from kube_fairlead.client.informer import Handler
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import BY_CONTROLLER, Caches
from kube_fairlead_lab.hollow.workloads.pods import owner_reference

__all__ = ["deployments", "next_sizes"]

_HASH_LABEL = "pod-template-hash"


def deployments(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _Deployments(context, caches).run()

    return Controller(name="hollow-deployment", run=run, workers=2)


def next_sizes(
    wanted: int, current: int, olds: dict[str, tuple[int, int]], ready: int, surge: int, unavailable: int
) -> tuple[int, dict[str, int]]:
    """The next sizes of the new set and of the old ones.

    Args:
        wanted: replicas of the Deployment.
        current: size of the new set.
        olds: size of each old set, and the number of its ready pods.
        ready: number of ready pods of the new set.
        surge: maximum number of additional pods.
        unavailable: maximum number of unavailable pods.
    """
    # A status can be older than the size; surplus pods are being deleted.
    olds = {name: (size, min(size, old_ready)) for name, (size, old_ready) in olds.items()}
    ready = min(ready, current)
    total = current + sum(size for size, _ in olds.values())
    new = min(wanted, current + max(0, wanted + surge - total)) if current < wanted else wanted
    # Old pods that are not ready can be deleted; of the others only as many as the limit allows.
    spare = max(0, ready + sum(old_ready for _, old_ready in olds.values()) - (wanted - unavailable))
    sizes: dict[str, int] = {}
    for name, (_, old_ready) in olds.items():
        going = min(old_ready, spare)
        spare -= going
        sizes[name] = old_ready - going
    return new, sizes


class _Deployments:
    """One run of the controller."""

    def __init__(self, context: Context, caches: Caches) -> None:
        self._context = context
        self._client = context.client
        self._deployments = caches.of(Deployment)
        self._sets = caches.of(ReplicaSet)
        self._queue: WorkQueue[Key] = context.queue()

    async def run(self) -> None:
        self._deployments.add_handler(
            Handler(
                on_add=lambda one: self._queue.add(key_of(one)),
                on_update=lambda _old, new: self._queue.add(key_of(new)),
            )
        )
        self._sets.add_handler(
            Handler(
                on_add=self._set_changed,
                on_update=lambda _old, new: self._set_changed(new),
                on_delete=self._set_changed,
            )
        )
        if await self._context.wait_synced(self._deployments, self._sets):
            await self._context.reconcile(self._queue, self._handle)

    def _set_changed(self, one: ReplicaSet) -> None:
        owner = one.metadata.controller
        if owner is not None and owner.kind == "Deployment":
            self._queue.add(Key(one.namespace, owner.name))

    async def _handle(self, key: Key) -> float | None:
        owner = self._deployments.store.by_key(key)
        if owner is None or owner.deleting:
            return None
        name = f"{owner.name}-{_template_hash(owner)}"
        sets = {one.name: one for one in self._sets.store.by_index(BY_CONTROLLER, owner.uid)}
        if name not in sets:
            await self._create_set(owner, name)
            return None
        await self._resize(owner, sets[name], [one for one in sets.values() if one.name != name])
        await self._write_status(owner, sets[name], list(sets.values()))
        return None

    async def _create_set(self, owner: Deployment, name: str) -> None:
        template = wire.to_dict(owner)["spec"]["template"]
        digest = {_HASH_LABEL: name.rpartition("-")[2]}
        metadata = template.get("metadata") or {}
        labels = (metadata.get("labels") or {}) | digest
        selector = wire.to_dict(owner)["spec"]["selector"]
        tree: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": {
                "replicas": 0,
                "selector": selector | {"matchLabels": (selector.get("matchLabels") or {}) | digest},
                "template": template | {"metadata": metadata | {"labels": labels}},
            },
        }
        try:
            await self._client.of(ReplicaSet).create(wire.from_dict(ReplicaSet, tree))
        except api_errors.AlreadyExists:
            return

    async def _resize(self, owner: Deployment, new: ReplicaSet, olds: list[ReplicaSet]) -> None:
        wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
        rolling = owner.spec.strategy.rolling_update
        surge = _share(rolling.max_surge if rolling else None, wanted, up=True)
        unavailable = _share(rolling.max_unavailable if rolling else None, wanted, up=False)
        if owner.spec.strategy.type == "Recreate":
            surge, unavailable = 0, wanted
        elif surge == unavailable == 0:
            unavailable = 1
        sizes = {one.name: (one.spec.replicas or 0, one.status.ready_replicas) for one in olds}
        size, old_sizes = next_sizes(
            wanted, new.spec.replicas or 0, sizes, new.status.ready_replicas, surge, unavailable
        )
        await self._scale(new, size)
        for one in olds:
            await self._scale(one, old_sizes[one.name])

    async def _scale(self, one: ReplicaSet, size: int) -> None:
        if one.spec.replicas == size:
            return
        patch = patches.MergePatch({"spec": {"replicas": size}})
        try:
            await self._client.of(ReplicaSet).patch(one.name, patch, namespace=one.namespace)
        except api_errors.NotFound:
            return

    async def _write_status(self, owner: Deployment, new: ReplicaSet, sets: list[ReplicaSet]) -> None:
        ready = sum(one.status.ready_replicas for one in sets)
        wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
        status = {
            "replicas": sum(one.status.replicas for one in sets),
            "updatedReplicas": new.status.replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
            "observedGeneration": owner.metadata.generation,
        }
        current = wire.to_dict(owner).get("status", {})
        if all(current.get(field, 0) == value for field, value in status.items()):
            return
        patch = patches.MergePatch({"status": status})
        try:
            await self._client.of(Deployment).patch(owner.name, patch, namespace=owner.namespace, subresource="status")
        except api_errors.NotFound:
            return


def _template_hash(owner: Deployment) -> str:
    template = wire.to_dict(owner)["spec"]["template"]
    encoded = msgspec.json.encode(template, order="deterministic")
    # Kubernetes' own alphabet for names: letters and digits that form no words.
    digest = hashlib.sha256(encoded).hexdigest()[:10]
    return digest.translate(str.maketrans("aeiou013", "bcdfghjk"))


def _share(value: IntOrString | None, total: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    text = "25%" if value is None else value
    portion = int(text.removesuffix("%")) * total / 100
    return math.ceil(portion) if up else math.floor(portion)
