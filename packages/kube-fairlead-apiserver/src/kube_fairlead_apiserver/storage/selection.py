"""Which objects of a table a list or a watch selects.

Upstream: k8s.io/apiserver@v0.36.4/pkg/storage/selection_predicate.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/cacher/cache_watcher.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from kube_fairlead_apiserver.storage.entries import Change, Entry

__all__ = ["EVERYTHING", "Matcher", "Selection", "classify"]


class Matcher(Protocol):
    """A label or field selector."""

    @property
    def keys(self) -> int:
        """The number of labels or fields that it compares, about."""
        ...

    def matches(self, values: Mapping[str, str], /) -> bool:
        """Return whether these labels or fields are selected."""
        ...


class Selection(msgspec.Struct, frozen=True):
    """A namespace ("" = all), one name ("" = all), and selectors (None = all)."""

    namespace: str = ""
    name: str = ""
    labels: Matcher | None = None
    fields: Matcher | None = None
    # A field that must equal a value: what an index can answer. Always implied by ``fields``.
    indexed_field: tuple[str, str] | None = None

    @property
    def keys(self) -> int:
        """The number of labels and fields of an entry that `matches` compares, at most, about."""
        return (0 if self.labels is None else self.labels.keys) + (0 if self.fields is None else self.fields.keys)

    def matches(self, entry: Entry) -> bool:
        """Return whether the entry is selected."""
        if self.namespace and not entry.key.startswith(self.namespace + "/"):
            return False
        if self.name and entry.key.rpartition("/")[2] != self.name:
            return False
        if self.labels is not None and not self.labels.matches(entry.labels):
            return False
        return self.fields is None or self.fields.matches(entry.fields)


EVERYTHING = Selection()


def classify(selection: Selection, change: Change) -> tuple[str, Entry] | None:
    """Return the event of a change for a watcher: its type and object, or None when the selection does not match.

    An object that stops matching is DELETED for this watcher, and one that starts to match is ADDED, whatever the write
    was.
    """
    matched = change.before is not None and selection.matches(change.before)
    matches = change.after is not None and selection.matches(change.after)
    if matches:
        return ("MODIFIED" if matched else "ADDED"), change.last
    if not matched:
        return None
    if change.after is None:
        return "DELETED", change.last
    assert change.before is not None  # noqa: S101 - it matched
    before = change.before
    return "DELETED", before.at(change.revision)
