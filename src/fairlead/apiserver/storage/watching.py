"""Watchers: who is told of which change, without asking every watcher about every change."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Iterable, Iterator

from fairlead.apiserver.storage.records import Change, Entry
from fairlead.apiserver.storage.selection import Selection, classify

__all__ = ["Notice", "Watcher", "WatcherIndex"]

# An event type, the object to show, and the change that shares its encoded frame (None for a bookmark).
Notice = tuple[str, Entry | None, Change | None]


class Watcher:
    """One open watch. Its owner takes notices out; the store puts them in and never waits for it.

    A reader that falls more than ``limit`` notices behind is cut off: its memory is bounded, and it can resume from the
    last revision it saw.
    """

    def __init__(self, selection: Selection, *, limit: int) -> None:
        self.selection = selection
        self.ended = False  # nothing more will come; what is queued is still to be taken
        self.overrun = False
        self._limit = limit
        self._notices: collections.deque[Notice] = collections.deque()
        self._ready = asyncio.Event()

    def offer(self, notice: Notice) -> None:
        """Queue a notice, unless the watch has ended."""
        if self.ended:
            return
        if len(self._notices) >= self._limit:
            self.overrun = True
            self.end()
            return
        self._notices.append(notice)
        self._ready.set()

    def end(self) -> None:
        """No more notices; the reader sees the end after what is queued."""
        self.ended = True
        self._ready.set()

    async def take(self) -> list[Notice]:
        """Every queued notice, as soon as there is one. Empty means that the watch has ended."""
        while not self._notices and not self.ended:
            await self._ready.wait()
        taken = list(self._notices)
        self._notices.clear()
        if not self.ended:
            self._ready.clear()
        return taken


class WatcherIndex:
    """The watchers of one table, filed under the narrowest thing each of them asks for.

    A thousand agents that each watch their own node's pods cost a change two dictionary look-ups, not a thousand
    checks.
    """

    def __init__(self) -> None:
        self._filed: dict[tuple[str, str], dict[Watcher, None]] = {}

    def add(self, watcher: Watcher) -> None:
        """Start telling a watcher."""
        self._filed.setdefault(_narrowest(watcher.selection), {})[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop telling a watcher."""
        place = _narrowest(watcher.selection)
        filed = self._filed.get(place)
        if filed is not None:
            filed.pop(watcher, None)
            if not filed:
                del self._filed[place]

    def __iter__(self) -> Iterator[Watcher]:
        for filed in self._filed.values():
            yield from filed

    def tell(self, change: Change) -> None:
        """Offer a change to those who may care."""
        for place in _places(change):
            for watcher in list(self._filed.get(place, ())):
                told = classify(watcher.selection, change)
                if told is not None:
                    watcher.offer((told[0], told[1], change))


def _narrowest(selection: Selection) -> tuple[str, str]:
    if selection.name:
        return "name", f"{selection.namespace}/{selection.name}" if selection.namespace else selection.name
    if selection.indexed_field is not None:
        name, value = selection.indexed_field
        return f"field {name}", value
    if selection.namespace:
        return "namespace", selection.namespace
    return "", ""


def _places(change: Change) -> Iterable[tuple[str, str]]:
    places: dict[tuple[str, str], None] = {("", ""): None}
    for entry in (change.before, change.after):
        if entry is None:
            continue
        namespace, _, name = entry.key.rpartition("/")
        places["name", entry.key] = None
        if namespace:
            places["name", name] = None  # one name across all namespaces
            places["namespace", namespace] = None
        for field, value in entry.fields.items():
            places[f"field {field}", value] = None
    return places
