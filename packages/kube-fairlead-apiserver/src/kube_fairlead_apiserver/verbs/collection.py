"""The response to a list: encoded while it is sent, from entries that all readers share.

A list that fits into one piece is sent whole. Of a larger list the server encodes a few items at a time, in every
form: a client that does not read its response holds a snapshot, and no copy of it. Objects in their stored form are
not copied before they are sent.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/runtime/serializer/json/collections.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/response.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream, Text, UnsentText
from kube_fairlead_apiserver.offload import LARGE_BYTES, weigh
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.presentation import ResponseFormat

__all__ = ["ListStream", "answer"]

# Larger than a watch's: a list is read at once, and each piece has a fixed cost.
_PIECE_BYTES = 64 * 1024
_END = object()

# Encodes entries as items. May be called in a thread.
_Maker = Callable[[Sequence[Entry]], list[bytes]]


class _Frame(msgspec.Struct, frozen=True):
    """The text before, between and after the items of a list."""

    top: bytes
    between: bytes
    bottom: bytes
    empty: bytes  # the whole list when it has none


async def answer(
    call: Call, form: ResponseFormat, entries: Iterable[Entry | None], meta: Mapping[str, Any], *, moment: int
) -> Response:
    """A list of stored objects.

    Args:
        call: the request.
        form: the form of the objects.
        entries: are read while the list is sent. None among them is a point to yield to other requests.
        meta: the metadata of the list.
        moment: the revision of the snapshot.
    """
    presentation.weigh_form(call, form)
    frame, make = _parts(call, form, meta)
    stream = ListStream(call, frame, make, iter(entries), moment=moment)
    stream.as_stored = form.plain and not call.request.query.flag("pretty")
    try:
        whole = await stream.begin()
    except BaseException:
        stream.close()
        raise
    if whole is None:
        return Response(body=stream, content_type=form.media)
    stream.close()
    return Response(body=whole, content_type=form.media)


class ListStream(Stream):
    """A list in pieces.

    1. At most `_PIECE_BYTES` of items are unsent, or a single larger one.
    2. Items in their stored form are added when there is room for them. All others are encoded by `work`,
       from `LARGE_BYTES` of stored objects at a time, or from a single larger one.
    """

    def __init__(
        self, call: Call, frame: _Frame, make: _Maker, entries: Iterator[Entry | None], *, moment: int
    ) -> None:
        super().__init__()
        self.as_stored = False  # most entries are stored in this form
        self._call = call
        self._frame = frame
        self._make = make
        self._entries: Iterator[Entry | None] | None = entries  # None when all are read
        self._unmade: list[Entry] = []
        self._unmade_bytes = 0
        self._made_bytes = 0  # ever
        self._unsent = UnsentText()
        self._between = frame.top  # the text before the next item
        self._complete = False  # no item will be added
        self._others_turn = False
        self._was_cut = False
        self._listener: Callable[[], None] | None = None
        self._reading = call.core.store.begin_reading(moment, self._cut)

    @property
    def over(self) -> bool:
        """All of it was sent."""
        return self._complete and not self._unsent.size

    @property
    def broken(self) -> bool:
        """Whether the snapshot was dropped because the reader was too slow."""
        return self._was_cut

    @property
    def needs_work(self) -> bool:
        """Whether the next items must be encoded, or other requests should run first."""
        return bool(self._unmade) or self._others_turn

    @property
    def own_bytes(self) -> int:
        """Bytes of items that were encoded for this reader."""
        return self._unsent.own_bytes

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when the list breaks off."""
        self._listener = listener

    async def begin(self) -> bytes | None:
        """Encode the first piece. Returns the whole list if it fits."""
        self._read()
        while self.needs_work and self._unsent.size < _PIECE_BYTES:
            await self.work()
            self._read()
        return self._unsent.take(_PIECE_BYTES) if self._complete and self._unsent.size <= _PIECE_BYTES else None

    def next_piece(self) -> bytes | None:
        """Return the next piece; None when `work` must run first, or when all was sent."""
        self._read()
        if self.needs_work and self._unsent.size < PIECE_BYTES:
            return None
        return self._unsent.take(_PIECE_BYTES)

    async def work(self) -> None:
        """Encode some items: in the thread for large objects, unless there are few."""
        if self._unmade:
            batch, self._unmade = self._unmade, []
            self._made_bytes += self._unmade_bytes
            self._unmade_bytes = 0
            weigh(self._made_bytes)
            for item in await self._call.core.offload.run(self._make, batch):
                self._add(item, own_bytes=len(item))
        self._others_turn = False
        await asyncio.sleep(0)

    def _read(self) -> None:
        """Add items in their stored form, until there is a whole piece or one that must be encoded."""
        while self._entries is not None and not self._others_turn and self._unsent.size < _PIECE_BYTES:
            entry = next(self._entries, _END)
            if entry is None:
                self._others_turn = True
            elif not isinstance(entry, Entry):
                self._entries = None
            elif self.as_stored and not self._unmade and self._call.resource.shows_stored(entry):
                self._add(presentation.stored_item(self._call.resource, entry))
            else:
                self._unmade.append(entry)
                self._unmade_bytes += len(entry.tail)
                if self._unmade_bytes >= LARGE_BYTES:
                    return
        if self._entries is None and not self._unmade and not self._complete and not self._was_cut:
            self._complete = True
            self._unsent.add(self._frame.empty if self._between is self._frame.top else self._frame.bottom)

    def _add(self, item: Text, *, own_bytes: int = 0) -> None:
        if not self._closed and not self._was_cut:
            parts = (item,) if isinstance(item, bytes) else item
            self._unsent.add((self._between, *parts), own_bytes=own_bytes)
            self._between = self._frame.between

    def _release(self) -> None:
        self._entries = None
        self._unmade.clear()
        self._unsent.clear()
        self._listener = None
        self._call.core.store.end_reading(self._reading)

    def _cut(self) -> None:
        self._was_cut = True
        listener = self._listener
        self._release()
        if listener is not None:
            listener()


def _parts(call: Call, form: ResponseFormat, meta: Mapping[str, Any]) -> tuple[_Frame, _Maker]:
    """Return the text around the items, and the encoder of items that are not in their stored form."""
    resource = call.resource
    if form.view == "Table":
        whole, field = presentation.table(call, form, [], meta), "rows"
        now = call.core.clock.now()

        def show(entry: Entry) -> Any:
            return presentation.table(call, form, [resource.decode(entry)], meta, now=now)["rows"][0]

    elif form.view:
        whole, field = _skeleton("PartialObjectMetadataList", form.api_version, meta), "items"

        def show(entry: Entry) -> Any:
            return presentation.metadata_of(resource, form, entry)

    else:
        whole, field = _skeleton(resource.list_kind, resource.api_version, meta), "items"
        if form.plain:
            return _stored(call, whole)
        show = resource.decode
    # kube-apiserver omits the list, rather than sending an empty one, when there is no metadata.
    none = {**whole, field: None} if field == "items" and form.view else whole
    if form.plain_media:
        frame = msgspec.structs.replace(_json_frame(whole), empty=msgspec.json.encode(none))
        return frame, lambda entries: [msgspec.json.encode(show(entry)) for entry in entries]
    frame = msgspec.structs.replace(_yaml_frame(whole, field), empty=presentation.to_yaml(none))
    return frame, lambda entries: [presentation.to_yaml([show(entry)]) for entry in entries]


def _skeleton(kind: str, api_version: str, meta: Mapping[str, Any]) -> Json:
    return {"kind": kind, "apiVersion": api_version, "metadata": dict(meta), "items": []}


def _stored(call: Call, whole: Json) -> tuple[_Frame, _Maker]:
    """Return the bytes of the entries in their stored form, or in the requested version."""
    resource = call.resource
    head = resource.item_head
    if not call.request.query.flag("pretty"):
        return _json_frame(whole), lambda entries: [resource.shown(entry).wire(head) for entry in entries]

    def pretty(entries: Sequence[Entry]) -> list[bytes]:
        # JSON escapes a line break in a string, so every line break belongs to the indentation.
        items = (msgspec.json.format(resource.shown(entry).wire(head), indent=2) for entry in entries)
        return [item.replace(b"\n", b"\n    ") for item in items]

    empty = msgspec.json.format(msgspec.json.encode(whole), indent=2)
    top = empty.removesuffix(b"]\n}")
    return _Frame(top + b"\n    ", b",\n    ", b"\n  ]\n}", empty), pretty


def _json_frame(whole: Json) -> _Frame:
    """The list is the last field."""
    empty = msgspec.json.encode(whole)
    return _Frame(empty.removesuffix(b"]}"), b",", b"]}", empty)


def _yaml_frame(whole: Json, field: str) -> _Frame:
    """The list is among the other fields, which are sorted."""
    empty = presentation.to_yaml(whole)
    mark = f"\n{field}: []\n".encode()
    top, _, bottom = empty.partition(mark)
    return _Frame(top + f"\n{field}:\n".encode(), b"", bottom, empty)
