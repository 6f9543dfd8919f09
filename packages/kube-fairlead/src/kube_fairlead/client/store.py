"""The objects an informer knows, by key and by index.

Upstream: k8s.io/client-go@v0.36.4/tools/cache/thread_safe_store.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from kube_fairlead.client.objects import Key, key_of

__all__ = ["Index", "Store"]

_T = TypeVar("_T")

Index = Callable[[_T], Iterable[str]]
"""Under which values an object is found, e.g. the name of a pod's node."""


class Store(Generic[_T]):
    """The known objects. Read by all, written by its owner only; objects in it are shared and never changed."""

    def __init__(self, indexes: Mapping[str, Index[_T]] | None = None) -> None:
        self._items: dict[Key, _T] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_T]:
        """All objects, of one moment."""
        return iter(list(self._items.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def keys(self) -> list[Key]:
        """All keys."""
        return list(self._items)

    def get(self, name: str, namespace: str = "") -> _T | None:
        """One object, if it is there."""
        return self._items.get(Key(namespace, name))

    def by_key(self, key: Key) -> _T | None:
        """One object, if it is there."""
        return self._items.get(key)

    def select(self, *, namespace: str | None = None, where: Callable[[_T], bool] | None = None) -> list[_T]:
        """Objects of one namespace, or all, that satisfy a condition, if there is one."""
        return [
            item
            for key, item in self._items.items()
            if (namespace is None or key.namespace == namespace) and (where is None or where(item))
        ]

    def by_index(self, index: str, value: str) -> list[_T]:
        """Objects that an index puts under a value.

        Raises:
            KeyError: there is no such index.
        """
        return [self._items[key] for key in self._indexes[index].get(value, ())]

    def put(self, item: _T) -> _T | None:
        """Add or replace an object; the one it replaces."""
        key = key_of(item)
        old = self.remove(key)
        self._items[key] = item
        for name, function in self._functions.items():
            for value in function(item):
                self._indexes[name].setdefault(value, {})[key] = None
        return old

    def remove(self, key: Key) -> _T | None:
        """Take an object out."""
        old = self._items.pop(key, None)
        if old is not None:
            for name, function in self._functions.items():
                for value in function(old):
                    keys = self._indexes[name].get(value, {})
                    keys.pop(key, None)
                    if not keys:
                        self._indexes[name].pop(value, None)
        return old
