"""The answer to a list: made while it is sent, from entries that all readers share.

A list that fits into one piece is answered whole. Of a larger one the server holds one piece at a time, whichever form
it takes: a client that does not read its answer keeps the moment that it shows, and no copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.apiserver.http.messages import Json, Response
from fairlead.apiserver.http.streams import Stream
from fairlead.apiserver.registry.resource import decode_entry
from fairlead.apiserver.storage.records import Entry
from fairlead.apiserver.storage.store import Store
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.call import Call
from fairlead.apiserver.verbs.presentation import Form

__all__ = ["ListStream", "answer"]

# Larger than a watch's: a list is read at once, and each piece costs a little.
_PIECE_BYTES = 64 * 1024

# A piece, and whether it is the last one.
_Piece = tuple[bytes, bool]


class _Frame(msgspec.Struct, frozen=True):
    """What stands around the items of a list, and between them."""

    top: bytes
    between: bytes
    bottom: bytes
    empty: bytes  # the whole list when it has none


def answer(
    call: Call, form: Form, entries: Iterable[Entry], meta: Mapping[str, Any], *, moment: int | None = None
) -> Response:
    """A list of stored objects. ``moment`` is the revision that the entries show, if they are read as they are sent."""
    frame, items = _parts(call, form, entries, meta)
    pieces = _pieces(frame, items)
    piece, last = next(pieces)
    if last:
        return Response(body=piece, content_type=form.media)
    return Response(body=ListStream(call.core.store, piece, pieces, moment), content_type=form.media)


class ListStream(Stream):
    """A list in pieces."""

    def __init__(self, store: Store, first: bytes, rest: Iterator[_Piece], moment: int | None) -> None:
        super().__init__()
        self._store = store
        self._first: bytes | None = first
        self._rest: Iterator[_Piece] | None = rest
        self._was_cut = False
        self._listener: Callable[[], None] | None = None
        self._reading = None if moment is None else store.begin_reading(moment, self._cut)

    @property
    def over(self) -> bool:
        """All of it was sent."""
        return self._rest is None and not self._was_cut

    @property
    def broken(self) -> bool:
        """The reader was so slow that the moment could not be kept for it."""
        return self._was_cut

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when the list breaks off."""
        self._listener = listener

    def next_piece(self) -> bytes | None:
        """The next piece; there is one until it is over."""
        if self._first is not None:
            piece, self._first = self._first, None
            return piece
        if self._rest is None:
            return None
        piece, last = next(self._rest)
        if last:
            self._end()
        return piece

    def _let_go(self) -> None:
        self._end()
        self._listener = None

    def _end(self) -> None:
        self._first = self._rest = None
        if self._reading is not None:
            self._store.end_reading(self._reading)
            self._reading = None

    def _cut(self) -> None:
        self._was_cut = True
        self._end()
        if self._listener is not None:
            self._listener()


def _pieces(frame: _Frame, items: Iterator[bytes]) -> Iterator[_Piece]:
    first = next(items, None)
    if first is None:
        yield frame.empty, True
        return
    piece = [frame.top, first]
    size = len(first)
    for item in items:
        if size >= _PIECE_BYTES:
            yield b"".join(piece), False
            piece, size = [], 0
        piece.append(frame.between)
        piece.append(item)
        size += len(item)
    piece.append(frame.bottom)
    yield b"".join(piece), True


def _parts(call: Call, form: Form, entries: Iterable[Entry], meta: Mapping[str, Any]) -> tuple[_Frame, Iterator[bytes]]:
    resource = call.resource
    if form.view == "Table":
        whole, field = presentation.table(call, form, [], meta), "rows"
        now = call.core.clock.now()
        objects = (presentation.table(call, form, [resource.decode(e)], meta, now=now)["rows"][0] for e in entries)
    elif form.view:
        whole, field = _skeleton("PartialObjectMetadataList", form.api_version, meta), "items"
        objects = (presentation.metadata_only(form, decode_entry(entry)) for entry in entries)
    else:
        whole, field = _skeleton(resource.list_kind, resource.api_version, meta), "items"
        if form.plain:
            return _stored(call, whole, entries)
        objects = (resource.decode(entry) for entry in entries)
    # kube-apiserver has no list, rather than an empty one, where there is no metadata to show.
    none = {**whole, field: None} if field == "items" and form.view else whole
    if form.plain_media:
        frame = msgspec.structs.replace(_json_frame(whole), empty=msgspec.json.encode(none))
        return frame, map(msgspec.json.encode, objects)
    frame = msgspec.structs.replace(_yaml_frame(whole, field), empty=presentation.to_yaml(none))
    return frame, (presentation.to_yaml([one]) for one in objects)


def _skeleton(kind: str, api_version: str, meta: Mapping[str, Any]) -> Json:
    return {"kind": kind, "apiVersion": api_version, "metadata": dict(meta), "items": []}


def _stored(call: Call, whole: Json, entries: Iterable[Entry]) -> tuple[_Frame, Iterator[bytes]]:
    """The bytes of the entries as they are stored."""
    resource = call.resource
    head = resource.item_head
    shown = entries if resource.shows_stored else map(resource.shown, entries)
    items = (entry.wire(head) for entry in shown)
    if not call.request.query.flag("pretty"):
        return _json_frame(whole), items
    empty = msgspec.json.format(msgspec.json.encode(whole), indent=2)
    top = empty.removesuffix(b"]\n}")
    # A line break inside of a text is written as two characters: those that there are, are those of the form.
    pretty = (msgspec.json.format(item, indent=2).replace(b"\n", b"\n    ") for item in items)
    return _Frame(top + b"\n    ", b",\n    ", b"\n  ]\n}", empty), pretty


def _json_frame(whole: Json) -> _Frame:
    """The list is the last field."""
    empty = msgspec.json.encode(whole)
    return _Frame(empty.removesuffix(b"]}"), b",", b"]}", empty)


def _yaml_frame(whole: Json, field: str) -> _Frame:
    """The list stands among the other fields, which are sorted."""
    empty = presentation.to_yaml(whole)
    mark = f"\n{field}: []\n".encode()
    top, _, bottom = empty.partition(mark)
    return _Frame(top + f"\n{field}:\n".encode(), b"", bottom, empty)
