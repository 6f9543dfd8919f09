"""Watch: the initial state if requested, then every change in commit order, until the watch ends.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/watch.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/cacher/cacher.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream, UnsentText
from kube_fairlead_apiserver.offload import LARGE_BYTES, begin_request, weigh
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.snapshot import Snapshot
from kube_fairlead_apiserver.storage.store import HistoryGone
from kube_fairlead_apiserver.storage.watchers import Notice, Watcher, size_of_notice
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.options import check_watch_options
from kube_fairlead_apiserver.verbs.resource_versions import parse_version, wait_for_version
from kube_fairlead_apiserver.verbs.selectors import read_selection
from kube_fairlead_apiserver.verbs.watch_timers import WatchTimers

__all__ = ["WatchStream", "watch"]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# Lines up to this size are encoded at once: waking a task for them costs more.
_SHORT_BYTES = 4 * 1024
_END = object()
_STATE_END: Notice = ("BOOKMARK", None, None)


async def watch(call: Call, timers: WatchTimers) -> Response:
    """Open a watch and stream it."""
    query = call.request.query
    form = presentation.negotiate(call.request, stream=True)
    selection = await read_selection(call)
    timeout = query.integer("timeoutSeconds") or 0
    initial = _wants_initial_events(call)
    if call.request.method == "HEAD":
        raise errors.MethodNotSupported("the server does not allow this method on a watch", details={})
    asked = query.get("resourceVersion")
    # A watch with an initial state waits for that state. Any other watch sends the changes after its version.
    version = await wait_for_version(call.core, asked) if initial else parse_version(asked)
    store = call.core.store
    bookmarks = query.flag("allowWatchBookmarks")
    presentation.check_include(call, form)
    # Without a version, or with "0", a watch begins with the current state; also when the client requests it.
    from_state = initial or (initial is None and version == 0)
    since = version if version and not initial else store.revision
    try:
        watcher = store.watch(call.resource.table, selection, since=since)
    except HistoryGone as error:
        return _one_frame(form, _error_frame(errors.Expired(str(error))))
    if not call.core.catalog.serves(call.resource):
        watcher.end()  # its definition changed or was deleted while this request waited
    body = WatchStream(call, form, watcher, since=since)
    if from_state:
        body.show_state(store.table(call.resource.table).snapshot(), marked=bool(initial) and bookmarks)
    timer = timers.start(watcher, timeout_seconds=timeout, bookmarks=bookmarks)
    body.when_closed(lambda: timers.stop(timer))
    return Response(body=body, content_type=form.stream_type)


def _wants_initial_events(call: Call) -> bool | None:
    query = call.request.query
    check_watch_options(query)
    return query.flag("sendInitialEvents") if "sendInitialEvents" in query else None


class WatchStream(Stream):
    """The lines of one watch: the initial state if requested, then the changes.

    1. A watch holds at most one piece, or one long line, of its own. The state is a snapshot that readers of one
       revision share. Watchers share changes and their lines.
    2. Lines in the stored form are made when there is room for them. `work` encodes all others, except short lines of
       changes.
    """

    def __init__(self, call: Call, form: presentation.ResponseFormat, watcher: Watcher, *, since: int) -> None:
        super().__init__()
        self._call = call
        self._form = form
        self._is_plain = form.plain
        self._is_costly = presentation.weigh_form(call, form)
        self._watcher = watcher
        self._since = since  # may be in the future; then the first changes are, too
        self._state: Iterator[Entry | None] | None = None
        self._mark_state = False
        self._unmade: list[Notice] = []
        self._others_turn = False
        self._caught_up = False  # the initial state was sent
        self._unsent = UnsentText()

    def show_state(self, snapshot: Snapshot, *, marked: bool) -> None:
        """Begin with the current state and, if requested, the bookmark at its end."""
        self._state = snapshot.scan(self._watcher.selection)
        self._mark_state = marked
        self._watcher.holds = self._since

    @property
    def over(self) -> bool:
        """Whether everything was sent, and nothing more will come."""
        done = not self._unsent.size and not self._unmade and self._state is None
        return self._watcher.ended and done and self._watcher.idle

    @property
    def ending(self) -> bool:
        """Whether the watch expired or the server stops. A slow reader gets the same time to read as all."""
        return self._watcher.ended and not self._watcher.overrun

    @property
    def broken(self) -> bool:
        """Whether it was cut in the middle of a line."""
        return self._unsent.begun and self._watcher.outrun

    @property
    def needs_work(self) -> bool:
        """Whether the next lines must be encoded, or other requests should run first."""
        return bool(self._unmade) or self._others_turn

    @property
    def paced(self) -> bool:
        """Whether the next lines wait for the user's turn: the initial state does, changes do not."""
        return not self._caught_up

    @property
    def own_bytes(self) -> int:
        """Bytes of lines that were encoded for this reader."""
        return self._unsent.own_bytes

    @property
    def shared(self) -> bytes:
        """A changed object whose line is on its way."""
        return self._unsent.shared

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another line, or the end."""
        self._watcher.listen(listener)

    def mute(self, *, muted: bool) -> None:
        """While muted, changes do not call the listener: many blocked watchers cost nothing."""
        self._watcher.muted = muted

    def only_piece(self) -> bytes | None:
        """Return the line of the only queued change, if it is short and in its stored form.

        The case of a fast reader.
        """
        watcher = self._watcher
        if not self._is_plain or self._unsent.size or self._state is not None or self._unmade or self._others_turn:
            return None
        notice = watcher.only_notice()
        if notice is None:
            return None
        kind, entry, change = notice
        if change is None or entry is None or change.revision <= self._since:
            return None
        resource = self._call.resource
        line = change.frames.get((kind, resource.head))  # only lines in the stored form are shared
        if line is None:
            if len(entry.tail) > PIECE_BYTES or not resource.shows_stored(entry):
                return None
            made = presentation.stored_event(self._call, kind, entry, change)
            assert isinstance(made, bytes)  # noqa: S101 - it is short
            line = made
        watcher.drop_all()
        return line

    def next_piece(self) -> bytes | None:
        """As many lines as fit into one write, or a part of a long one."""
        if self._watcher.outrun:
            self._state = None
            self._unmade.clear()
            self._others_turn = False
            if not self._unsent.begun:
                self._unsent.clear()
            return None
        if not self._unsent.size and self._state is None and not self.needs_work and self._watcher.idle:
            self._caught_up = True
            return None
        while self._unsent.size < PIECE_BYTES and self._read_lines():
            pass
        if self._state is not None and self.needs_work and self._unsent.size < PIECE_BYTES:
            return None  # each write has its own buffer while the client does not read
        return self._unsent.take(PIECE_BYTES)

    async def work(self) -> None:
        """Encode the next lines: in the thread, for large objects."""
        notices, self._unmade = self._unmade, []
        if notices:
            begin_request(self._call.user.name)  # one large object does not make those after it large
            weigh(sum(size_of_notice(notice) for notice in notices))
            presentation.weigh_form(self._call, self._form)
            for line in await self._call.core.offload.run(self._made, notices):
                if not self._closed:
                    self._unsent.add(line, own_bytes=len(line))
        self._others_turn = False
        await asyncio.sleep(0)

    def _release(self) -> None:
        self._state = None
        self._unmade.clear()
        self._unsent.clear()
        self._call.core.store.unwatch(self._call.resource.table, self._watcher)

    def _read_lines(self) -> bool:
        """Add some lines of the state, or of later changes; False when there are none to send now."""
        if self.needs_work:
            return False
        if self._state is not None:
            return self._read_state(self._state)
        while notices := self._watcher.take_nowait():
            notices = [notice for notice in notices if self._reached(notice)]
            if self._are_stored(notices):
                self._add_stored(notices)
            elif not self._is_costly and sum(map(size_of_notice, notices)) <= _SHORT_BYTES:
                for line in self._made(notices):
                    self._unsent.add(line, own_bytes=len(line))
            else:
                self._unmade = notices
                return False
            if notices:
                return True
        return False

    def _read_state(self, state: Iterator[Entry | None]) -> bool:
        """Add one line of the state, or queue it for `work`."""
        size = 0
        while size < LARGE_BYTES:
            entry = next(state, _END)
            if entry is None:
                self._others_turn = True
                return False
            if not isinstance(entry, Entry):
                break
            notice = ("ADDED", entry, None)
            if not self._unmade and self._are_stored([notice]):
                # Readers of that revision share it, so it is counted there.
                self._unsent.add(presentation.stored_event(self._call, *notice))
                return True
            self._unmade.append(notice)
            size += size_of_notice(notice)
        else:
            return False
        self._state = self._watcher.holds = None
        if self._mark_state and self._unmade:
            self._unmade.append(_STATE_END)
        elif self._mark_state:
            self._unsent.add(self._made([_STATE_END])[0])
        return not self._unmade

    def _are_stored(self, notices: list[Notice]) -> bool:
        shows_stored = self._call.resource.shows_stored
        if not self._is_plain:
            return False
        return all(entry is not None and (kind == "BOOKMARK" or shows_stored(entry)) for kind, entry, _ in notices)

    def _add_stored(self, notices: list[Notice]) -> None:
        for kind, entry, change in notices:
            assert entry is not None  # noqa: S101 - every notice shows something
            if kind == "BOOKMARK":
                self._unsent.add(presentation.bookmark_event(self._call, self._form, entry.revision, None))
            else:
                line = presentation.stored_event(self._call, kind, entry, change)
                self._unsent.add(line, shared=b"" if isinstance(line, bytes) else entry.tail)

    def _reached(self, notice: Notice) -> bool:
        _, entry, change = notice
        # A bookmark is no change and may have the same version.
        return change.revision > self._since if change else entry is not None and entry.revision >= self._since

    def _made(self, notices: Sequence[Notice]) -> list[bytes]:
        """Lines of this watcher alone."""
        call, form, lines = self._call, self._form, []
        for kind, entry, _ in notices:
            if entry is None:
                lines.append(presentation.bookmark_event(call, form, self._since, {_INITIAL_EVENTS_END: "true"}))
            elif kind == "BOOKMARK":
                lines.append(presentation.bookmark_event(call, form, entry.revision, None))
            else:
                lines.append(presentation.event(call, form, kind, entry))
        return lines


def _error_frame(error: errors.ApiError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": error.to_status()}) + b"\n"


def _one_frame(form: presentation.ResponseFormat, frame: bytes) -> Response:
    return Response(body=frame, content_type=form.stream_type)
