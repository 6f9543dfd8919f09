"""Watchers: finds the watchers of a change without testing every watcher."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Iterator, Mapping

from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.selection import Selection, classify

__all__ = ["Notice", "WatchDispatcher", "Watcher", "WatcherIndex", "size_of_notice"]

# An event type, the object, and the change that shares its encoded frame (None for a bookmark).
Notice = tuple[str, Entry | None, Change | None]

# From a revision: some of the changes after it, in order. Empty when there are none, None when some are dropped.
Reader = Callable[[int], list[Change] | None]

_TAKEN_BYTES = 16 * 1024
_NOTICE_BYTES = 128  # memory of a queued notice besides the object, roughly
# Watchers woken before yielding to other work. Their data leaves the process only between turns: small turns allow
# clients to read while the rest is still being encrypted.
_WOKEN_AT_ONCE = 24
_NOT_FILED: Mapping[Selection, Mapping[Watcher, None]] = {}


class WatchDispatcher:
    """Wakes watchers that have notices, a few at a time, in the order of the notices."""

    def __init__(self) -> None:
        self._ready: collections.deque[Watcher] = collections.deque()
        self._planned = False

    def add(self, watcher: Watcher) -> None:
        """Wake this watcher soon."""
        self._ready.append(watcher)
        if not self._planned:
            self._plan()

    def _plan(self) -> None:
        self._planned = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._planned = False
        try:
            for _ in range(min(_WOKEN_AT_ONCE, len(self._ready))):
                self._ready.popleft().wake()
        finally:
            if self._ready and not self._planned:
                self._plan()  # a failure of one does not stop the others


class Watcher:
    """One open watch. Its owner takes notices out; the store puts them in and never waits for it.

    1. A watcher that resumes reads what it missed from the table's history, a little at a time. It has no queue until
       it has caught up.
    2. Afterwards the queue is bounded by ``limit_bytes``, shared or not. A reader that falls further behind is cut
       after the queued notices, and can resume from the last revision that it saw.
    3. `oldest` is the revision after which the watcher needs the history.
    """

    __slots__ = (
        "_behind",
        "_bytes",
        "_dispatcher",
        "_due",
        "_history",
        "_limit_bytes",
        "_listener",
        "_notices",
        "_ready",
        "ended",
        "holds",
        "muted",
        "outrun",
        "overrun",
        "selection",
    )

    def __init__(
        self,
        selection: Selection,
        *,
        dispatcher: WatchDispatcher,
        limit_bytes: int,
        since: int | None = None,
        history: Reader | None = None,
    ) -> None:
        self.selection = selection
        self.ended = False  # ended; queued notices can still be taken
        self.overrun = False
        self.outrun = False  # the changes that it still had to send are dropped
        self.holds: int | None = None  # the revision of a state that is still being sent
        self.muted = False  # its reader has no room, and takes queued notices later
        self._dispatcher = dispatcher
        self._limit_bytes = limit_bytes
        self._behind = since if history is not None else None
        self._history = history
        self._notices: collections.deque[Notice] = collections.deque()
        self._bytes = 0
        self._due = False  # it is in the dispatcher's queue
        self._ready = asyncio.Event()
        self._listener: Callable[[], None] | None = None
        if history is not None:
            self._ready.set()

    @property
    def oldest(self) -> int | None:
        """The revision after which it still has changes to send; None when it has none."""
        if self.holds is not None:
            return self.holds
        if self._behind is not None:
            return self._behind
        for _, _, change in self._notices:
            if change is not None:
                return change.revision - 1
        return None

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, and nothing is left to read from the history."""
        return not self._notices and self._behind is None

    def offer(self, notice: Notice, size: int) -> None:
        """Queue a notice of this size, unless the watch has ended."""
        if self.ended:
            return
        if self._behind is None or notice[2] is None:
            if self._bytes > self._limit_bytes:
                self.overrun = True
                self.end()
                return
            self._notices.append(notice)
            self._bytes += size
        if not self._due and not self.muted:
            self._due = True
            self._dispatcher.add(self)

    def end(self) -> None:
        """End the watch; the reader sees the end after the queued notices.

        A watcher that is behind has only bookmarks queued. They are dropped: the client would resume from them and miss
        changes.
        """
        self.ended = True
        if self._behind is not None:
            self.drop_all()
        self._behind = self._history = None  # it can resume; later changes may be of another version of its kind
        self._plan()

    def cut(self) -> None:
        """End at once, and release everything."""
        self.outrun = True
        self.close()

    def close(self) -> None:
        """Release everything, even while a reader still refers to this."""
        self.drop_all()
        self.holds = None
        self.end()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this whenever there may be something to take; None: leave that to `take` again."""
        self._listener = listener

    def wake(self) -> None:
        """Called by the dispatcher: there is something to take, or the watch has ended."""
        self._due = False
        if self._listener is not None:
            self._listener()
        else:
            self._ready.set()

    def only_notice(self) -> Notice | None:
        """Return the notice that is queued, if it is the only thing to take and more may come; it stays queued."""
        if self.ended or self._behind is not None or len(self._notices) != 1:
            return None
        return self._notices[0]

    def drop_all(self) -> None:
        """Clear the queue after its notices were taken."""
        self._notices.clear()
        self._bytes = 0

    def take_nowait(self) -> list[Notice]:
        """Some of what is queued, in order. Empty when there is nothing (yet)."""
        if self._behind is not None:
            missed = self._catch_up()
            if missed:
                return missed
        taken: list[Notice] = []
        size = 0
        while self._notices and size < _TAKEN_BYTES:
            notice = self._notices.popleft()
            size += size_of_notice(notice)
            taken.append(notice)
        self._bytes -= size
        return taken

    async def take(self) -> list[Notice]:
        """Some notices, as soon as there is one. Empty means that the watch has ended."""
        while True:
            taken = self.take_nowait()
            if taken or self.ended:
                return taken
            self._ready.clear()
            await self._ready.wait()

    def _plan(self) -> None:
        if not self._due:
            self._due = True
            self._dispatcher.add(self)

    def _catch_up(self) -> list[Notice]:
        assert self._history is not None  # noqa: S101 - it is there for as long as the watcher is behind
        while self._behind is not None:
            changes = self._history(self._behind)
            if changes is None:
                self.cut()  # the client lists again, rather than miss dropped changes
                break
            if not changes:
                self._behind = self._history = None
                break
            self._behind = changes[-1].revision
            seen = [(classify(self.selection, change), change) for change in changes]
            missed: list[Notice] = [(event[0], event[1], change) for event, change in seen if event is not None]
            if missed:
                return missed
        return []


class WatcherIndex:
    """The watchers of one table, indexed by the narrowest selector of each.

    With a thousand agents that each watch their own node's pods, a change costs two dictionary lookups, not a thousand
    comparisons. Watchers with the same selection are grouped: a change is compared with it once.
    """

    def __init__(self) -> None:
        self._filed: dict[tuple[str, str], dict[Selection, dict[Watcher, None]]] = {}

    def add(self, watcher: Watcher) -> None:
        """Add a watcher."""
        selection = watcher.selection
        self._filed.setdefault(_narrowest(selection), {}).setdefault(selection, {})[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        place = _narrowest(watcher.selection)
        filed = self._filed.get(place, {})
        same = filed.get(watcher.selection)
        if same is not None:
            same.pop(watcher, None)
            if not same:
                del filed[watcher.selection]
            if not filed:
                del self._filed[place]

    def __iter__(self) -> Iterator[Watcher]:
        for filed in self._filed.values():
            for same in filed.values():
                yield from same

    def notify(self, change: Change) -> None:
        """Offer a change to the watchers that it may match. Watchers of the same event share one notice."""
        notices: dict[str, Notice] = {}
        for place in _places(change):
            for selection, watchers in self._filed.get(place, _NOT_FILED).items():
                event = classify(selection, change)
                if event is None:
                    continue
                notice = notices.get(event[0])
                if notice is None:
                    notice = notices[event[0]] = (event[0], event[1], change)
                size = size_of_notice(notice)
                for watcher in watchers:
                    watcher.offer(notice, size)  # an ended watch takes nothing


def size_of_notice(notice: Notice) -> int:
    """Return the memory of a notice, counted without sharing."""
    return _NOTICE_BYTES + (0 if notice[1] is None else len(notice[1].tail))


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
