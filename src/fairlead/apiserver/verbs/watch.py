"""Watch: the initial state if it is asked for, then every change in commit order, until somebody ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from fairlead.api import errors
from fairlead.apiserver.http.messages import Response
from fairlead.apiserver.storage.selection import Selection
from fairlead.apiserver.storage.store import HistoryGone
from fairlead.apiserver.storage.watching import Notice, Watcher
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.call import Call
from fairlead.apiserver.verbs.keeper import OpenWatch, WatchKeeper
from fairlead.apiserver.verbs.options import check_watch_options
from fairlead.apiserver.verbs.selecting import read_selection
from fairlead.apiserver.verbs.versions import parse_version, wait_for_version

__all__ = ["watch"]

_PIECE_BYTES = 32 * 1024
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
    opening = _opening(call, form, selection, marked=bool(initial) and bookmarks, from_state=from_state, since=since)
    kept = keeper.keep(watcher, timeout_seconds=timeout, bookmarks=bookmarks)
    return Response(body=_WatchBody(call, form, watcher, opening, keeper, kept, since), content_type=form.stream_type)


def _wants_initial_events(call: Call) -> bool | None:
    query = call.request.query
    check_watch_options(query)
    return query.flag("sendInitialEvents") if "sendInitialEvents" in query else None


def _opening(
    call: Call, form: presentation.Form, selection: Selection, *, marked: bool, from_state: bool, since: int
) -> list[bytes]:
    """What is sent before the first change: the state as ADDED events, and where wanted the mark of its end."""
    frames: list[bytes] = []
    if from_state:
        table = call.core.store.table(call.resource.table)
        shown = table.page(selection, after="", revision=None)
        frames += [presentation.event(call, form, "ADDED", entry, None) for entry in shown]
    if marked:
        frames.append(presentation.bookmark_event(call, form, since, {_INITIAL_EVENTS_END: "true"}))
    return frames


class _WatchBody:
    """The lines of one watch. Whoever sends them closes it, even if it never asked for the first one."""

    def __init__(
        self,
        call: Call,
        form: presentation.Form,
        watcher: Watcher,
        opening: list[bytes],
        keeper: WatchKeeper,
        kept: OpenWatch,
        since: int,
    ) -> None:
        self._call = call
        self._form = form
        self._watcher = watcher
        self._pieces = _pieces(opening)
        self._keeper = keeper
        self._kept = kept
        self._since = since  # may be yet to come, and so are the first changes to tell of

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while True:
            piece = next(self._pieces, None)
            if piece is not None:
                return piece
            notices = await self._watcher.take()
            if not notices:
                await self.aclose()
                raise StopAsyncIteration
            self._pieces = _pieces(self._frames(notices))

    def _frames(self, notices: Iterable[Notice]) -> Iterator[bytes]:
        for notice in notices:
            _, entry, change = notice
            # A bookmark, which is no change, may stand at the very version.
            reached = change.revision > self._since if change else entry is not None and entry.revision >= self._since
            if reached:
                yield _frame(self._call, self._form, notice)

    async def aclose(self) -> None:
        """Stop watching."""
        self._keeper.release(self._kept)
        self._call.core.store.unwatch(self._call.resource.table, self._watcher)


def _pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames joined to what is worth one write.

    No larger: a reader that stopped reading holds on to one piece and to frames it shares with every other reader.
    """
    piece: list[bytes] = []
    size = 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size >= _PIECE_BYTES:
            yield b"".join(piece)
            piece.clear()
            size = 0
    if piece:
        yield b"".join(piece)


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
