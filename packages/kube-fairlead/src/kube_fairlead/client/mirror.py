"""What a list or a watch event means for what is already known. Pure: the informer does the talking.

Upstream: k8s.io/client-go@v0.36.4/tools/cache/delta_fifo.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from kube_fairlead.client.objects import key_of, resource_version_of, uid_of
from kube_fairlead.client.store import Index, Store
from kube_fairlead.client.watch import Change, ChangeType

__all__ = ["Added", "Deleted", "Delta", "Mirror", "Updated"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Added(Generic[_T]):
    """An object that was not known before."""

    item: _T


@dataclasses.dataclass(frozen=True, slots=True)
class Updated(Generic[_T]):
    """An object that changed."""

    old: _T
    new: _T


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted(Generic[_T]):
    """An object that is gone. Its last state is known exactly unless it was deleted between two watches."""

    item: _T
    last_state_known: bool = True


Delta = Added[_T] | Updated[_T] | Deleted[_T]


class Mirror(Generic[_T]):
    """A copy of what the server has, and every step by which it got there.

    Invariants:
    1. Replaying all deltas in order gives the store.
    2. No state (uid and resource version) of an object is reported twice.
    3. A replaced object is reported as deleted before the other of its name is reported as added.
    """

    def __init__(self, indexes: Mapping[str, Index[_T]] | None = None) -> None:
        self.store: Store[_T] = Store(indexes)

    def replace(self, items: Iterable[_T]) -> Iterator[Delta[_T]]:
        """The server has exactly these. Each delta is in the store when it is given out."""
        present = {key_of(item): item for item in items}
        for known in self.store:
            if key_of(known) not in present:
                self.store.remove(key_of(known))
                yield Deleted(known, last_state_known=False)
        for item in present.values():
            yield from self._put(item)

    def apply(self, change: Change[_T]) -> Iterator[Delta[_T]]:
        """One object changed. Each delta is in the store when it is given out."""
        if change.type is not ChangeType.DELETED:
            yield from self._put(change.object)
            return
        key = key_of(change.object)
        known = self.store.by_key(key)
        # The deletion of an earlier object of this name says nothing about the one that is known.
        if known is not None and uid_of(known) == uid_of(change.object):
            self.store.remove(key)
            yield Deleted(change.object)

    def _put(self, item: _T) -> Iterator[Delta[_T]]:
        known = self.store.by_key(key_of(item))
        if known is None:
            self.store.put(item)
            yield Added(item)
        elif uid_of(known) != uid_of(item):
            self.store.remove(key_of(item))
            yield Deleted(known, last_state_known=False)
            self.store.put(item)
            yield Added(item)
        elif resource_version_of(known) != resource_version_of(item):
            self.store.put(item)
            yield Updated(known, item)
