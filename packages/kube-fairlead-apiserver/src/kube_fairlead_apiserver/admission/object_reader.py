"""Reads of the store for admission: the newest state of objects, and values derived from whole tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.selection import EVERYTHING, Selection
from kube_fairlead_apiserver.storage.store import Store

__all__ = ["CachedValue", "ObjectReader"]

T = TypeVar("T")


class ObjectReader:
    """Reads for admission plugins. They include uncommitted writes, because the next write builds on them."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self.catalog = catalog
        self._derived: dict[str, list[CachedValue[Any]]] = {}
        self._generation = -1
        self._equivalents: dict[tuple[str, str, str], tuple[Resource, ...]] = {}
        store.observe(self._changed)

    def entry(self, table: str, key: str) -> Entry | None:
        """Return one stored object, not decoded; its labels and fields can be read."""
        return self._store.newest(table, key)

    def namespace(self, name: str) -> Entry | None:
        """Return a namespace."""
        return self._store.newest("namespaces", name)

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return one object of a resource."""
        entry = self._store.newest(resource.table, resource.key(namespace, name))
        return None if entry is None else resource.decode(entry)

    def find(self, group: str, version: str, plural: str, namespace: str, name: str) -> Json | None:
        """Return one object of a built-in resource."""
        resource = self.catalog.get(group, version, plural)
        return None if resource is None else self.get(resource, namespace, name)

    def equivalents(self, resource: Resource) -> tuple[Resource, ...]:
        """Return the other resources that serve the same objects.

        Other versions, and events under their second group.
        """
        if self._generation != self.catalog.generation:
            self._generation = self.catalog.generation
            self._equivalents.clear()
        key = (resource.group, resource.version, resource.plural)
        found = self._equivalents.get(key)
        if found is None:
            others = (one for one in self.catalog.sharing(resource.table) if one is not resource)
            found = self._equivalents[key] = tuple(others)
        return found

    def list(self, resource: Resource, selection: Selection = EVERYTHING) -> Iterator[Json]:
        """Yield every selected object of a resource."""
        for entry in self._store.table(resource.table).page(selection):
            yield resource.decode(entry)

    async def wait_for(
        self, resource: Resource, namespace: str, name: str, *, clock: Clock, seconds: float
    ) -> Json | None:
        """Return one object; waits for a moment when it does not exist yet."""
        found = self.get(resource, namespace, name)
        if found is not None or seconds <= 0:
            return found
        watcher = self._store.watch(resource.table, Selection(namespace=namespace, name=name), since=None)
        try:
            async with clock.timeout(seconds):
                while found is None and await watcher.take():
                    found = self.get(resource, namespace, name)
        except TimeoutError:
            found = self.get(resource, namespace, name)  # it may exist while the request still waits for its turn
        finally:
            self._store.unwatch(resource.table, watcher)
        return found

    def derive(self, resources: Iterable[tuple[str, str, str]], build: Callable[[], T]) -> CachedValue[T]:
        """Return a value that is computed from these resources (group, version, plural) after each change."""
        derived = CachedValue(build)
        for group, version, plural in resources:
            resource = self.catalog.get(group, version, plural)
            if resource is None:
                raise LookupError(f"{plural}.{version}.{group} is not served")
            self._derived.setdefault(resource.table, []).append(derived)
        return derived

    def _changed(self, table: str, change: Change) -> None:
        del change
        for derived in self._derived.get(table, ()):
            derived.forget()


class CachedValue(Generic[T]):
    """A value that is computed at its first use and cached until it is invalidated."""

    __slots__ = ("_build", "_value")

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._value: list[T] = []  # empty: not computed

    def get(self) -> T:
        """Return the value; compute it if necessary."""
        if not self._value:
            self._value.append(self._build())
        return self._value[0]

    def forget(self) -> None:
        """Invalidate the value: its sources have changed."""
        self._value.clear()
