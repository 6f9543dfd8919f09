"""The served resources: the built-in ones, and custom ones as definitions are created and deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["Catalog"]


class Catalog:
    """Resources by group, version and plural name. Every change calls the listeners (discovery and OpenAPI cache)."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str, str], Resource] = {}
        self._by_table: dict[str, dict[tuple[str, str, str], Resource]] = {}
        self._listeners: list[Callable[[], None]] = []
        self.generation = 0
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, in place of one of the same name."""
        key = resource.group, resource.version, resource.plural
        self._resources[key] = resource
        self._by_table.setdefault(resource.table, {})[key] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource
        self._changed()

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource."""
        gone = self._resources.pop((group, version, plural), None)
        if gone is not None:
            self._by_kind.pop((gone.group, gone.version, gone.kind), None)
            left = self._by_table[gone.table]
            del left[group, version, plural]
            if not left:
                del self._by_table[gone.table]
            self._changed()

    def get(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource under these names."""
        return self._resources.get((group, version, plural))

    def serves(self, resource: Resource) -> bool:
        """Return whether this resource is served: a replaced one is not."""
        return self.get(resource.group, resource.version, resource.plural) is resource

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, as objects and owner references name it."""
        group, _, version = api_version.rpartition("/")
        return self._by_kind.get((group, version, kind))

    def of_table(self, table: str) -> Resource | None:
        """Return a resource that keeps its objects in a table; any of its versions."""
        return next(iter(self.sharing(table)), None)

    def sharing(self, table: str) -> Collection[Resource]:
        """Return every resource that keeps its objects in a table."""
        return self._by_table.get(table, {}).values()

    def versions(self, group: str, plural: str) -> list[Resource]:
        """Return every served version of a resource."""
        return [r for (g, _, p), r in self._resources.items() if g == group and p == plural]

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._resources.values()))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this whenever a resource is added or removed."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()
