"""A client for code in the server: its controllers and subresources."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.operations.core import Core, WriteOptions, WriteResult
from kube_fairlead_apiserver.operations.create import create, create_own
from kube_fairlead_apiserver.operations.delete import delete
from kube_fairlead_apiserver.operations.propagation import DeleteRequest
from kube_fairlead_apiserver.operations.update import update
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.selection import EVERYTHING, Selection

__all__ = ["SYSTEM", "InternalClient"]

# The user of the server's own writes: not authorized, but named in managedFields and to webhooks.
SYSTEM = UserInfo(name="system:apiserver", groups=("system:masters", "system:authenticated"))


class InternalClient:
    """A small client for code in the server. Objects are plain JSON, in the version of the resource asked for."""

    def __init__(self, core: Core, manager: str) -> None:
        self._core = core
        self._manager = manager

    def options(self, *, dry_run: bool = False, for_deletion: bool = False) -> WriteOptions:
        """Return the options of the server's own writes."""
        return WriteOptions(user=SYSTEM, field_manager=self._manager, dry_run=dry_run, for_deletion=for_deletion)

    def resource(self, group: str, version: str, plural: str) -> Resource:
        """Return a built-in resource, which is always served."""
        found = self._core.catalog.get(group, version, plural)
        if found is None:
            raise LookupError(f"{plural}.{version}.{group} is not served")
        return found

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return the durable state of one object."""
        entry = self._core.store.read(resource.table, resource.key(namespace, name))
        return None if entry is None else resource.decode(entry)

    def newest(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return one object, including a pending write: the state that the next write builds on."""
        entry = self._core.store.newest(resource.table, resource.key(namespace, name))
        return None if entry is None else resource.decode(entry)

    def list(self, resource: Resource, selection: Selection = EVERYTHING) -> Iterator[Json]:
        """Yield every selected object."""
        for entry in self._core.store.table(resource.table).page(selection):
            yield resource.decode(entry)

    async def create(self, resource: Resource, obj: Json, *, namespace: str = "") -> WriteResult:
        """Create an object."""
        return await create(self._core, resource, obj, namespace=namespace, options=self.options())

    async def create_own(self, resource: Resource, obj: Json) -> WriteResult:
        """Create a constant of this program, without admission or validation."""
        return await create_own(self._core, resource, obj, options=self.options())

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        mutate: Callable[[Json], None],
        *,
        subresource: str = "",
        dry_run: bool = False,
        for_deletion: bool = False,
    ) -> WriteResult:
        """Change an object in place, with retries after conflicts; raises what ``mutate`` raises."""

        async def mutation(current: Json) -> Json:
            mutate(current)
            return current

        return await update(
            self._core,
            resource,
            namespace=namespace,
            name=name,
            mutation=mutation,
            options=self.options(dry_run=dry_run, for_deletion=for_deletion),
            subresource=subresource,
        )

    async def delete(self, resource: Resource, namespace: str, name: str, request: DeleteRequest) -> WriteResult:
        """Delete an object."""
        return await delete(
            self._core, resource, namespace=namespace, name=name, request=request, options=self.options()
        )
