"""Termination of namespaces: the content is deleted first, then the namespace.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/namespace/namespace_controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/namespace/deletion/status_condition_utils.go
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.operations.propagation import DeleteRequest
from kube_fairlead_apiserver.registry.resource import Resource, split_key
from kube_fairlead_apiserver.storage.entries import Change
from kube_fairlead_apiserver.storage.selection import Selection

__all__ = ["NamespaceController"]

_HOLDER = "kubernetes"
_DELETIONS_AT_ONCE = 32  # so that they share commits


class _RemainingContent(msgspec.Struct):
    """The remaining content of a terminating namespace."""

    objects: dict[str, int] = {}  # by resource
    finalizers: dict[str, int] = {}

    def add(self, resource: Resource, obj: Json) -> None:
        name = f"{resource.plural}.{resource.group}"
        self.objects[name] = self.objects.get(name, 0) + 1
        for finalizer in obj["metadata"].get("finalizers") or ():
            self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1

    def conditions(self) -> list[Json]:
        remain = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(self.objects.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items()))
        return [
            _condition("NamespaceDeletionDiscoveryFailure", "", "ResourcesDiscovered", _DISCOVERED),
            _condition("NamespaceDeletionGroupVersionParsingFailure", "", "ParsedGroupVersions", _PARSED),
            _condition("NamespaceDeletionContentFailure", "", "ContentDeleted", _ALL_DELETED),
            _condition("NamespaceContentRemaining", remain, "SomeResourcesRemain", "Some resources are remaining: "),
            _condition(
                "NamespaceFinalizersRemaining",
                held,
                "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
                "Some content in the namespace has finalizers remaining: " if held else _NO_FINALIZERS,
            ),
        ]


_DISCOVERED = "All resources successfully discovered"
_PARSED = "All legacy kube types successfully parsed"
_ALL_DELETED = "All content successfully deleted, may be waiting on finalization"
_NO_FINALIZERS = "All content-preserving finalizers finished"


def _condition(kind: str, detail: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True" if detail else "False", "reason": reason, "message": message + detail}


class NamespaceController:
    """Reconciles terminating namespaces. Its keys are namespace names."""

    name = "namespace-controller"

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, "namespace-controller")
        self._ending: dict[str, None] = {}

    def initial(self) -> Iterable[str]:
        """Yield every namespace."""
        return list(self._core.store.table("namespaces").entries)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield a changed namespace, or a terminating one whose content changed."""
        if table == "namespaces":
            return (change.last.key,)
        if change.after is None:
            namespace, _ = split_key(change.last.key)
            if namespace in self._ending:
                return (namespace,)
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Delete the content of a terminating namespace."""
        namespaces = self._client.resource("", "v1", "namespaces")
        namespace = self._client.get(namespaces, "", key)
        if namespace is None:
            self._ending.pop(key, None)
            return None
        if not namespace["metadata"].get("deletionTimestamp"):
            return None
        self._ending[key] = None
        left = await self._empty(key)
        if left.objects:
            await self._report(key, left)
            return None  # the deletion of the remaining content queues the key again
        if any(True for _ in self._contents(key)):
            return 0.0  # an object was created before the namespace started to terminate
        await self._release(key)
        return None

    async def _empty(self, namespace: str) -> _RemainingContent:
        """Delete everything in the namespace; returns the remaining content."""
        left = _RemainingContent()
        refused: list[errors.ApiError] = []
        todo = collections.deque(self._contents(namespace))

        async def delete_some() -> None:
            while todo:
                resource, name = todo.popleft()
                request = DeleteRequest(propagation="Background")
                try:
                    result = await self._client.delete(resource, namespace, name, request)
                except errors.NotFound:
                    continue
                except errors.ApiError as error:
                    # A finalizer still holds it: the namespace stays, and the key is retried.
                    refused.append(error)
                    continue
                if not result.removed:
                    left.add(resource, result.obj)

        async with TaskScope(self.name) as scope:
            for number in range(min(_DELETIONS_AT_ONCE, len(todo))):
                scope.start(delete_some(), name=f"empty {namespace} {number}")
        if refused:
            raise refused[0]
        return left

    def _contents(self, namespace: str) -> Iterator[tuple[Resource, str]]:
        tables: dict[str, None] = {}
        for resource in self._core.catalog:
            if not resource.namespaced or resource.table in tables or "delete" not in resource.verbs:
                continue
            tables[resource.table] = None
            selection = Selection(namespace=namespace)
            for entry in self._core.store.table(resource.table).page(selection):
                yield resource, split_key(entry.key)[1]

    async def _report(self, namespace: str, left: _RemainingContent) -> None:
        """Write the remaining content into the status."""
        now = format_time(self._core.clock.now())

        def report(current: Json) -> None:
            conditions = current.setdefault("status", {}).setdefault("conditions", [])
            for condition in left.conditions():
                known = next((c for c in conditions if c["type"] == condition["type"]), None)
                if known is None:
                    conditions.append({**condition, "lastTransitionTime": now})
                    continue
                if known["status"] != condition["status"]:
                    known["lastTransitionTime"] = now
                known.update(condition)

        namespaces = self._client.resource("", "v1", "namespaces")
        with contextlib.suppress(errors.NotFound):
            await self._client.change(namespaces, "", namespace, report, subresource="status")

    async def _release(self, namespace: str) -> None:
        namespaces = self._client.resource("", "v1", "namespaces")

        def release(current: Json) -> None:
            kept = [f for f in current.get("spec", {}).get("finalizers") or () if f != _HOLDER]
            spec = current.setdefault("spec", {})
            if kept:
                spec["finalizers"] = kept
            else:
                spec.pop("finalizers", None)

        with contextlib.suppress(errors.NotFound):
            await self._client.change(namespaces, "", namespace, release, subresource="finalize")
