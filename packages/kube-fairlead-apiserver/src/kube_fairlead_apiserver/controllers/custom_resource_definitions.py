"""Custom resource definitions: accepts names, serves the kinds, and on deletion deletes their objects first.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/status/naming_controller.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/establish/establishing_controller.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/finalizer/crd_finalizer.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/apiapproval/apiapproval_controller.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/nonstructuralschema/nonstructuralschema_controller.go
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd import conditions, definition, naming
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.operations.propagation import DeleteRequest
from kube_fairlead_apiserver.registry.resource import Resource, split_key
from kube_fairlead_apiserver.registry.strategies.custom import custom_resources
from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["DefinitionController"]

_TABLE = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionController:
    """Reconciles definitions. Its keys are their names, which are also the names of their objects' tables."""

    name = "definitions"

    def __init__(self, core: Core, reindex: Callable[[Resource], None]) -> None:
        self._core = core
        self._client = InternalClient(core, "customresourcedefinitions")
        self._reindex = reindex
        self._served: dict[str, list[Resource]] = {}
        self._compiled_from: dict[str, tuple[object, object]] = {}
        self._ending: dict[str, None] = {}

    def serve_established(self) -> None:
        """Serve the kinds that were established before the restart, before the first request."""
        resource = self._resource()
        for crd in self._client.list(resource):
            if conditions.is_established(crd):
                self._serve(crd)

    def _resource(self) -> Resource:
        return self._client.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")

    def initial(self) -> Iterable[str]:
        """Yield every definition."""
        return list(self._core.store.table(_TABLE).entries)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """A changed definition, others that may get its names, or one that waits until its objects are deleted."""
        if table == _TABLE:
            if change.after is None:
                group = change.last.key.partition(".")[2]
                rivals = [key for key in self._core.store.table(_TABLE).entries if key.partition(".")[2] == group]
                return (change.last.key, *rivals)
            return (change.last.key,)
        return (table,) if table in self._ending else ()

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one definition."""
        resource = self._resource()
        crd = self._client.newest(resource, "", key)
        if crd is None:
            self._ending.pop(key, None)
            self._stop_serving(key)
            return None
        if crd["metadata"].get("deletionTimestamp"):
            self._ending[key] = None
            for served in self._served.get(key, ()):
                served.is_ending = True
            await self._end(resource, key)
            return None
        await self._settle(resource, key)
        return None

    async def _settle(self, resource: Resource, key: str) -> None:
        now = self._core.clock.now()

        def settle(current: Json) -> None:
            others = [other for other in self._client.list(resource) if other["metadata"]["name"] != key]
            naming.accept_names(current, [*others, *self._builtin_names(current["spec"]["group"])], now)

        with contextlib.suppress(errors.NotFound):
            result = await self._client.change(resource, "", key, settle, subresource="status")
            if conditions.is_established(result.obj):
                self._serve(result.obj)

    def _builtin_names(self, group: str) -> list[Json]:
        """The names of the built-in kinds in a group, in the form of accepted names."""
        return [
            {
                "spec": {"group": group},
                "status": {
                    "acceptedNames": {
                        "plural": kind.plural,
                        "singular": kind.singular,
                        "shortNames": list(kind.short_names),
                        "kind": kind.kind,
                        "listKind": kind.list_kind,
                    }
                },
            }
            for kind in self._core.catalog
            if kind.group == group and self._is_own(kind)
        ]

    def _is_own(self, resource: Resource) -> bool:
        """Return whether the kind is built in."""
        return not any(resource in served for served in self._served.values())

    def _is_builtin(self, crd: Json) -> bool:
        """Return whether a built-in kind has this name; an older definition of that name is not served."""
        spec = crd["spec"]
        return any(map(self._is_own, self._core.catalog.versions(spec["group"], spec["names"]["plural"])))

    async def _end(self, resource: Resource, key: str) -> None:
        """Delete the objects, then remove the finalizer of the definition."""
        now = self._core.clock.now()
        served = self._served.get(key)
        left = 0
        if served:
            for entry in list(self._core.store.table(key).entries.values()):
                namespace, name = split_key(entry.key)
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    outcome = await self._client.delete(
                        served[0], namespace, name, DeleteRequest(propagation="Background")
                    )
                    left += not outcome.removed
        reason = "InstanceDeletionInProgress" if left else "InstanceDeletionCompleted"

        def advance(current: Json) -> None:
            conditions.set_condition(current, conditions.terminating_condition(reason), now)

        def release(current: Json) -> None:
            metadata = current["metadata"]
            kept = [f for f in metadata.get("finalizers") or () if f != conditions.CLEANUP_FINALIZER]
            if kept:
                metadata["finalizers"] = kept
            else:
                metadata.pop("finalizers", None)

        with contextlib.suppress(errors.NotFound):
            await self._client.change(resource, "", key, advance, subresource="status")
            if not left:
                await self._client.change(resource, "", key, release)

    def _serve(self, crd: Json) -> None:
        name = crd["metadata"]["name"]
        source = (crd["spec"], (crd.get("status") or {}).get("acceptedNames"))
        if self._compiled_from.get(name) == source or self._is_builtin(crd):
            return
        kinds = definition.compile_kinds(crd)
        self._stop_serving(name)
        self._compiled_from[name] = source
        resources = custom_resources(kinds, unchanged=crd["metadata"].get("generation") == 1)
        self._served[name] = resources
        for resource in resources:
            self._core.catalog.add(resource)
        if resources:
            self._reindex(resources[0])

    def _stop_serving(self, name: str) -> None:
        """Stop serving a kind, or serve it changed. Its watches end, so that clients list it again."""
        self._compiled_from.pop(name, None)
        for resource in self._served.pop(name, ()):
            self._core.catalog.remove(resource.group, resource.version, resource.plural)
        self._core.store.end_watches_of(name)
