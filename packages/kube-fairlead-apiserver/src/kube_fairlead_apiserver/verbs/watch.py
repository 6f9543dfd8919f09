"""Watch: the initial state if requested, then every change in commit order, until the watch ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream, Unsent
from kube_fairlead_apiserver.offload import LARGE_BYTES, begin_request, weigh
from kube_fairlead_apiserver.storage.records import Entry
from kube_fairlead_apiserver.storage.snapshot import Snapshot
from kube_fairlead_apiserver.storage.store import HistoryGone
from kube_fairlead_apiserver.storage.watchers import Notice, Watcher, size_of_notice
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.options import check_watch_options
from kube_fairlead_apiserver.verbs.selectors import read_selection
from kube_fairlead_apiserver.verbs.versions import parse_version, wait_for_version
from kube_fairlead_apiserver.verbs.watch_timers import WatchTimers

__all__ = ["WatchStream", "watch"]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# Lines of so many bytes are made at once: a task that is woken for them costs more.
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
    timer = timers.start(watcher, timeout_seconds=timeout, bookmarks=bookmarks)
    body.when_closed(lambda: timers.stop(timer))
    return Response(body=body, content_type=form.stream_type)


def _wants_initial_events(call: Call) -> bool | None:
    query = call.request.query
    check_watch_options(query)
    return query.flag("sendInitialEvents") if "sendInitialEvents" in query else None


class WatchStream(Stream):
    """The lines of one watch: the state if it is asked for, then the changes.

    1. What it holds of its own is at most one piece, or one long line. The state is a snapshot that readers of one
       moment share, changes are shared by their watchers, and so are their lines.
    2. Lines that show objects as they are stored are made when there is room for them. All others are made by `work`,
       but for short ones of changes.
    """

    def __init__(self, call: Call, form: presentation.Form, watcher: Watcher, *, since: int) -> None:
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
        self._caught_up = False  # everything was sent that was there when it began
        self._unsent = Unsent()

    def show_state(self, snapshot: Snapshot, *, marked: bool) -> None:
        """Begin with what is there and, where wanted, the mark of its end."""
        self._state = snapshot.scan(self._watcher.selection)
        self._mark_state = marked
        self._watcher.holds = self._since

    @property
    def over(self) -> bool:
        """Everything was sent, and no more will come."""
        done = not self._unsent.size and not self._unmade and self._state is None
        return self._watcher.ended and done and self._watcher.idle

    @property
    def ending(self) -> bool:
        """Its time is over, or the server stops. A reader that was too slow has the time that all have to read."""
        return self._watcher.ended and not self._watcher.overrun

    @property
    def broken(self) -> bool:
        """It was cut off in the middle of a line."""
        return self._unsent.begun and self._watcher.outrun

    @property
    def needs_work(self) -> bool:
        """The next lines do not show objects as they are stored, or others should have a turn first."""
        return bool(self._unmade) or self._others_turn

    @property
    def paced(self) -> bool:
        """News are sent as they come; what was there before is sent in turns."""
        return not self._caught_up

    @property
    def own_bytes(self) -> int:
        """Lines that were made for this reader."""
        return self._unsent.own_bytes

    @property
    def shared(self) -> bytes:
        """A changed object whose line is on its way."""
        return self._unsent.shared

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another line, or the end."""
        self._watcher.listen(listener)

    def mute(self, *, muted: bool) -> None:
        """A thousand watchers that do not read cost a change no thousand calls."""
        self._watcher.muted = muted

    def only_piece(self) -> bytes | None:
        """The line of the one change that is queued, if it is short and stored: all that a fast reader ever needs."""
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
        line = change.frames.get((kind, resource.head))  # only stored objects have such lines
        if line is None:
            if len(entry.tail) > PIECE_BYTES or not resource.shows_stored(entry):
                return None
            made = presentation.stored_event(self._call, kind, entry, change)
            assert isinstance(made, bytes)  # noqa: S101 - it is short
            line = made
        watcher.drop_all()
        return line

    def next_piece(self) -> bytes | None:
        """As many lines as are worth one write, or a part of a long one."""
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
            return None  # each write takes memory of its own while the client does not read
        return self._unsent.take(PIECE_BYTES)

    async def work(self) -> None:
        """Make the lines that are next: in the thread, for large objects."""
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

    def _let_go(self) -> None:
        self._state = None
        self._unmade.clear()
        self._unsent.clear()
        self._call.core.store.unwatch(self._call.resource.table, self._watcher)

    def _read_lines(self) -> bool:
        """Some lines of the state, or of what has happened since; False when there are none that can be sent now."""
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
        """Add one line of the state, or take what there is work for before it can be added."""
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
                # It is counted as what readers of that moment hold.
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
        # A bookmark, which is no change, may stand at the very version.
        return change.revision > self._since if change else entry is not None and entry.revision >= self._since

    def _made(self, notices: Sequence[Notice]) -> list[bytes]:
        """Lines for this watcher alone."""
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


def _one_frame(form: presentation.Form, frame: bytes) -> Response:
    return Response(body=frame, content_type=form.stream_type)
