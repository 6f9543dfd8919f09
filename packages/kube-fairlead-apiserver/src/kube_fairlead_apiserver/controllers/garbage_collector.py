"""The garbage collector: deletes dependents with their owner, before it, or orphans them, as the delete requests.

It keeps a graph of owners and dependents by uid, updated with every change, and reconciles one object at a time: does
any of its owners still exist?

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/garbagecollector/garbagecollector.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/garbagecollector/graph_builder.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/garbagecollector/graph.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/garbagecollector/patch.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.operations.propagation import FOREGROUND, ORPHAN, DeleteRequest
from kube_fairlead_apiserver.registry.resource import Resource, split_key
from kube_fairlead_apiserver.storage.entries import Change, Entry

__all__ = ["GarbageCollector"]

# An owner of an unknown kind may become known when the kind is defined; retry, but rarely.
_UNKNOWN_KIND_SECONDS = 30.0


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    namespace: str = ""
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Node(msgspec.Struct):
    """One object in the graph."""

    table: str
    key: str
    metadata: _Metadata

    @property
    def place(self) -> str:
        return f"{self.table}\0{self.key}"


_decoder = msgspec.json.Decoder(_Object)


class GarbageCollector:
    """Reconciles dependents and owners. Its keys are places: a table and a key in it."""

    name = "garbage-collector-controller"

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, "garbage-collector")
        self._by_uid: dict[str, _Node] = {}
        self._by_place: dict[str, _Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # owner uid -> places

    # ---- the graph

    def initial(self) -> Iterable[str]:
        """Yield every object that has owners, or waits for its dependents."""
        for table in self._core.store.tables():
            for entry in table.entries.values():
                self._add(table.name, entry)
        return [node.place for node in self._by_place.values() if self._is_interesting(node)]

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield the object itself, its dependents after its deletion, and its owners that may wait for it."""
        place = f"{table}\0{change.last.key}"
        touched: list[str] = []
        before = self._by_place.get(place)
        if before is not None:
            self._drop(before)
            touched += self._owners(before)
        if change.after is None:
            if before is not None:
                touched += self._dependents.get(before.metadata.uid, ())
            return touched
        node = self._add(table, change.after)
        if self._is_interesting(node):
            touched += [place, *self._owners(node)]
        return touched

    def _add(self, table: str, entry: Entry) -> _Node:
        node = _Node(table, entry.key, _decoder.decode(entry.value).metadata)
        self._by_place[node.place] = node
        self._by_uid[node.metadata.uid] = node
        for owner in node.metadata.owner_references or ():
            self._dependents.setdefault(owner.uid, {})[node.place] = None
        return node

    def _drop(self, node: _Node) -> None:
        self._by_place.pop(node.place, None)
        if self._by_uid.get(node.metadata.uid) is node:
            del self._by_uid[node.metadata.uid]
        for owner in node.metadata.owner_references or ():
            places = self._dependents.get(owner.uid)
            if places is not None:
                places.pop(node.place, None)
                if not places:
                    del self._dependents[owner.uid]

    def _owners(self, node: _Node) -> list[str]:
        """Return the owners of an object that wait for the deletion of their dependents."""
        found = (self._by_uid.get(owner.uid) for owner in node.metadata.owner_references or ())
        return [owner.place for owner in found if owner is not None and owner.metadata.deletion_timestamp]

    @staticmethod
    def _is_interesting(node: _Node) -> bool:
        metadata = node.metadata
        finalizers = metadata.finalizers or ()
        waits = bool(metadata.deletion_timestamp) and (FOREGROUND in finalizers or ORPHAN in finalizers)
        return bool(metadata.owner_references) or waits

    # ---- reconciling

    async def reconcile(self, key: str) -> float | None:
        """Finish an owner that waits for its dependents; then check whether the object itself has lost its owners."""
        node = self._by_place.get(key)
        if node is None:
            return None
        resource = self._core.catalog.of_table(node.table)
        if resource is None:
            return None
        finalizers = node.metadata.finalizers or ()
        if node.metadata.deletion_timestamp:
            if ORPHAN in finalizers:
                await self._orphan_dependents(node)
                return None
            if FOREGROUND in finalizers:
                await self._delete_dependents(node)
        if node.metadata.owner_references:
            return await self._check_owners(resource, node)
        return None

    async def _orphan_dependents(self, node: _Node) -> None:
        """Remove the owner from its dependents' references, then remove its finalizer."""
        for place in list(self._dependents.get(node.metadata.uid, ())):
            dependent = self._by_place.get(place)
            if dependent is not None:
                await self._forget_owners(dependent, {node.metadata.uid})
        await self._remove_finalizer(node, ORPHAN)

    async def _delete_dependents(self, node: _Node) -> None:
        """Delete the dependents that block a foreground deletion; without any, remove the owner's finalizer."""
        blocked = False
        for place in list(self._dependents.get(node.metadata.uid, ())):
            dependent = self._by_place.get(place)
            if dependent is None:
                continue
            blocks = any(
                owner.uid == node.metadata.uid and owner.block_owner_deletion
                for owner in dependent.metadata.owner_references or ()
            )
            blocked = blocked or blocks
            dependent_resource = self._core.catalog.of_table(dependent.table)
            if dependent_resource is not None and not dependent.metadata.deletion_timestamp:
                await self._check_owners(dependent_resource, dependent)
        if not blocked:
            await self._remove_finalizer(node, FOREGROUND)

    async def _check_owners(self, resource: Resource, node: _Node) -> float | None:
        """Delete an object without existing owners; remove references to deleted owners when others exist."""
        solid, gone, waiting, unknown = self._sort_owners(node)
        if solid:
            if gone or waiting:
                await self._forget_owners(node, gone | waiting)
            return None
        if unknown:
            return _UNKNOWN_KIND_SECONDS
        if node.metadata.deletion_timestamp:
            return None
        has_dependents = bool(self._dependents.get(node.metadata.uid))
        policy = "Foreground" if waiting and has_dependents else None
        await self._delete(resource, node, policy or self._own_policy(node))
        return None

    def _sort_owners(self, node: _Node) -> tuple[set[str], set[str], set[str], set[str]]:
        """Return the owners by state.

        Existing, deleted, waiting for this dependent, and of a kind that is not served.
        """
        solid: set[str] = set()
        gone: set[str] = set()
        waiting: set[str] = set()
        unknown: set[str] = set()
        for owner in node.metadata.owner_references or ():
            found = self._by_uid.get(owner.uid)
            resource = self._core.catalog.of_kind(owner.api_version, owner.kind)
            if resource is None:
                unknown.add(owner.uid)
            elif found is None or not self._is_named(owner, resource, found, node):
                gone.add(owner.uid)
            elif found.metadata.deletion_timestamp and FOREGROUND in (found.metadata.finalizers or ()):
                waiting.add(owner.uid)
            else:
                solid.add(owner.uid)
        return solid, gone, waiting, unknown

    @staticmethod
    def _is_named(owner: _Owner, resource: Resource, found: _Node, node: _Node) -> bool:
        namespace = node.metadata.namespace if resource.namespaced else ""
        return found.table == resource.table and found.key == resource.key(namespace, owner.name)

    @staticmethod
    def _own_policy(node: _Node) -> str:
        finalizers = node.metadata.finalizers or ()
        return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"

    # ---- writing

    async def _delete(self, resource: Resource, node: _Node, policy: str) -> None:
        namespace, name = split_key(node.key)
        request = DeleteRequest(uid=node.metadata.uid, propagation=policy)
        try:
            await self._client.delete(resource, namespace, name, request)
        except (errors.NotFound, errors.Conflict):
            return  # it is deleted, or another object has its name now

    async def _forget_owners(self, node: _Node, uids: set[str]) -> None:
        def forget(current: Json) -> None:
            metadata = current["metadata"]
            kept = [owner for owner in metadata.get("ownerReferences") or () if owner.get("uid") not in uids]
            if kept:
                metadata["ownerReferences"] = kept
            else:
                metadata.pop("ownerReferences", None)

        await self._change(node, forget)

    async def _remove_finalizer(self, node: _Node, finalizer: str) -> None:
        def remove(current: Json) -> None:
            metadata = current["metadata"]
            kept = [other for other in metadata.get("finalizers") or () if other != finalizer]
            if kept:
                metadata["finalizers"] = kept
            else:
                metadata.pop("finalizers", None)

        await self._change(node, remove)

    async def _change(self, node: _Node, mutate: Callable[[Json], None]) -> None:
        resource = self._core.catalog.of_table(node.table)
        if resource is None:
            return
        namespace, name = split_key(node.key)

        def guarded(current: Json) -> None:
            if current["metadata"]["uid"] != node.metadata.uid:
                raise errors.NotFound("another object has its name now")
            mutate(current)

        try:
            await self._client.change(resource, namespace, name, guarded)
        except errors.NotFound:
            return
