"""Watch: the initial state if it is asked for, then every change in commit order, until somebody ends it."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator

import msgspec

from fairlead.api import errors
from fairlead.apiserver.http.messages import Response
from fairlead.apiserver.http.streams import PIECE_BYTES, Stream
from fairlead.apiserver.storage.snapshot import Snapshot
from fairlead.apiserver.storage.store import HistoryGone
from fairlead.apiserver.storage.watching import Notice, Watcher
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.call import Call
from fairlead.apiserver.verbs.keeper import WatchKeeper
from fairlead.apiserver.verbs.options import check_watch_options
from fairlead.apiserver.verbs.selecting import read_selection
from fairlead.apiserver.verbs.versions import parse_version, wait_for_version

__all__ = ["WatchStream", "watch"]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def watch(call: Call, keeper: WatchKeeper) -> Response:
    """Open a watch and stream it."""
    query = call.request.query
    form = presentation.negotiate(call.request, stream=True)
    selection = read_selection(call)
    timeout = query.integer("timeoutSeconds") or 0
    if timeout < 0:
        raise errors.BadRequest("timeoutSeconds must not be negative")
    initial = _wants_initial_events(call)
    if call.request.method == "HEAD":
        raise errors.MethodNotSupported("the server does not allow this method on a watch", details={})
    asked = query.get("resourceVersion")
    # Who wants to see what is there waits for it; others are told of what comes after the version, whenever that is.
    version = await wait_for_version(call.core, asked) if initial else parse_version(asked)
    store = call.core.store
    bookmarks = query.flag("allowWatchBookmarks")
    presentation.check_include(call, form)
    # Without a version, or with "0", a watch begins with what is there; so it does when the client asks for that.
    from_state = initial or (initial is None and version == 0)
    since = version if version and not initial else store.revision
    try:
        watcher = store.watch(call.resource.table, selection, since=since)
    except HistoryGone as error:
        return _one_frame(form, _error_frame(errors.Expired(str(error))))
    if not call.core.catalog.serves(call.resource):
        watcher.end()  # its definition changed or went while this request was on its way here
    body = WatchStream(call, form, watcher, since=since)
    if from_state:
        body.show_state(store.table(call.resource.table).snapshot(), marked=bool(initial) and bookmarks)
    kept = keeper.keep(watcher, timeout_seconds=timeout, bookmarks=bookmarks)
    body.when_closed(lambda: keeper.release(kept))
    return Response(body=body, content_type=form.stream_type)


def _wants_initial_events(call: Call) -> bool | None:
    query = call.request.query
    check_watch_options(query)
    return query.flag("sendInitialEvents") if "sendInitialEvents" in query else None


class WatchStream(Stream):
    """The lines of one watch: the state if it is asked for, then the changes.

    What it holds of its own is at most one piece. The state is a snapshot that readers of one moment share, changes are
    shared by their watchers, and so are their lines.
    """

    def __init__(self, call: Call, form: presentation.Form, watcher: Watcher, *, since: int) -> None:
        super().__init__()
        self._call = call
        self._form = form
        self._watcher = watcher
        self._since = since  # may be yet to come, and so are the first changes to tell of
        self._state: Iterator[bytes] | None = None
        self._lines: collections.deque[bytes] = collections.deque()
        self._sent = 0  # bytes of the first line, when it is larger than a piece

    def show_state(self, snapshot: Snapshot, *, marked: bool) -> None:
        """Begin with what is there and, where wanted, the mark of its end."""
        self._state = self._state_frames(snapshot, marked=marked)
        self._watcher.holds = self._since

    @property
    def over(self) -> bool:
        """Everything was sent, and no more will come."""
        return self._watcher.ended and not self._lines and self._state is None and self._watcher.idle

    @property
    def ending(self) -> bool:
        """Its time is over, or the server stops. A reader that was too slow has the time that all have to read."""
        return self._watcher.ended and not self._watcher.overrun

    @property
    def broken(self) -> bool:
        """It was cut off in the middle of a line."""
        return self._sent > 0 and self._watcher.outrun

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another line, or the end."""
        self._watcher.listen(listener)

    def next_piece(self) -> bytes | None:
        """As many lines as are worth one write, or a part of a long one."""
        if self._watcher.outrun:
            self._state = None
            if not self._sent:
                self._lines.clear()
            return None
        piece: list[bytes] = []
        size = 0
        while size < PIECE_BYTES and (self._lines or self._read_lines()):
            if len(self._lines[0]) > PIECE_BYTES:
                if piece:
                    break
                return self._part()
            piece.append(self._lines.popleft())
            size += len(piece[-1])
        if len(piece) == 1:
            return piece[0]
        return b"".join(piece) if piece else None

    def _let_go(self) -> None:
        self._state = None
        self._lines.clear()
        self._call.core.store.unwatch(self._call.resource.table, self._watcher)

    def _part(self) -> bytes:
        """The next part of a line that is larger than a piece: the line itself is shared with other watchers."""
        line = self._lines[0]
        part = line[self._sent : self._sent + PIECE_BYTES]
        self._sent += len(part)
        if self._sent >= len(line):
            self._lines.popleft()
            self._sent = 0
        return part

    def _read_lines(self) -> bool:
        """One line of the state, or some of what has happened since; False when there is nothing now."""
        while not self._lines:
            if self._state is not None:
                line = next(self._state, None)
                if line is not None:
                    self._lines.append(line)
                    return True
                self._state = self._watcher.holds = None
            notices = self._watcher.take_nowait()
            if not notices:
                return False
            self._lines += [_frame(self._call, self._form, notice) for notice in notices if self._reached(notice)]
        return True

    def _reached(self, notice: Notice) -> bool:
        _, entry, change = notice
        # A bookmark, which is no change, may stand at the very version.
        return change.revision > self._since if change else entry is not None and entry.revision >= self._since

    def _state_frames(self, snapshot: Snapshot, *, marked: bool) -> Iterator[bytes]:
        call, form = self._call, self._form
        for entry in snapshot.select(self._watcher.selection):
            yield presentation.event(call, form, "ADDED", entry, None)
        if marked:
            yield presentation.bookmark_event(call, form, self._since, {_INITIAL_EVENTS_END: "true"})


def _frame(call: Call, form: presentation.Form, notice: Notice) -> bytes:
    kind, entry, change = notice
    assert entry is not None  # noqa: S101 - every notice shows something
    if kind == "BOOKMARK":
        return presentation.bookmark_event(call, form, entry.revision, None)
    return presentation.event(call, form, kind, entry, change)


def _error_frame(error: errors.ApiError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": error.to_status()}) + b"\n"


def _one_frame(form: presentation.Form, frame: bytes) -> Response:
    return Response(body=frame, content_type=form.stream_type)
