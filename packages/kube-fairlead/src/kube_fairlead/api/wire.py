"""Typed kinds from and to JSON, without losing what their types do not name.

`decode` reads bytes into a kind at the speed of a typed decoder and keeps the bytes beside the object. `encode`
compares the object with what those bytes say and lays only the differences over them, so that unknown fields at any
depth, and the choice between absent, null and empty, survive untouched. An unchanged object is its bytes again.

    pod = wire.decode(core_v1.Pod, body)
    pod = wire.replace(pod, spec=wire.replace(pod.spec, node_name="node-1"))
    body = wire.encode(pod)

What is kept belongs to the object it came with: a part put into another object brings only its known fields. To copy a
part whole, copy it as a dict: `wire.from_dict(Pod, {"spec": wire.to_dict(replica_set)["spec"]["template"]["spec"]})`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kube_fairlead.api import errors, layout
from kube_fairlead.api.meta import KubeObject, ListMeta, WatchEventType
from kube_fairlead.api.parts import Part

__all__ = [
    "DecodeError",
    "Event",
    "KubeList",
    "decode",
    "decode_event",
    "decode_list",
    "encode",
    "from_dict",
    "original",
    "replace",
    "replace_metadata",
    "to_dict",
]

PartT = TypeVar("PartT", bound=Part)
ObjectT = TypeVar("ObjectT", bound=KubeObject)

_ORIGINAL = "original"


class DecodeError(ValueError):
    """Raised when bytes are not JSON, or not an object of the kind that was expected."""


class KubeList(msgspec.Struct, Generic[ObjectT], frozen=True):
    """A list of objects of one kind, or one page of it."""

    metadata: ListMeta = ListMeta()
    items: tuple[ObjectT, ...] = ()


class Event(msgspec.Struct, Generic[ObjectT], frozen=True):
    """One watch event: a `WatchEventType` and the object; of a bookmark only its resourceVersion counts."""

    type: str
    object: ObjectT


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Object(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Source:
    """The bytes of a whole answer, cut into its objects only when one of them is read."""

    __slots__ = ("_data", "_pieces")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pieces: list[msgspec.Raw] | None = None

    def piece(self, index: int) -> bytes:
        if self._pieces is None:
            self._pieces = _items.decode(self._data).items or []
        return bytes(self._pieces[index])


class _LineSource(_Source):
    """The bytes of one watch event."""

    __slots__ = ()

    def piece(self, index: int) -> bytes:
        del index  # there is only one
        return bytes(_line.decode(self._data).object)


_items = msgspec.json.Decoder(_Items)
_line = msgspec.json.Decoder(_Object)


def decode(kind: type[PartT], data: bytes, *, keep: bool = True) -> PartT:
    """Read an object, or a part by itself. With `keep=False` the bytes, and so the unknown fields, are dropped."""
    value: PartT = _typed(kind, kind, data)
    if isinstance(value, KubeObject):
        _expect(kind, value)
        if keep:
            value.__dict__[_ORIGINAL] = data
    return value


def decode_list(kind: type[ObjectT], data: bytes, *, keep: bool = True) -> KubeList[ObjectT]:
    """Read a list of a kind. The items share the bytes of the list, which stay in memory until the last one is gone."""
    page: KubeList[ObjectT] = _typed(_alias(KubeList, kind), kind, data)
    if keep:
        source = _Source(data)
        for index, item in enumerate(page.items):
            item.__dict__[_ORIGINAL] = (source, index)
    return page


def decode_event(kind: type[ObjectT], data: bytes, *, keep: bool = True) -> Event[ObjectT]:
    """Read one line of a watch. An event of type ERROR is raised as the ApiError that it describes."""
    try:
        event: Event[ObjectT] = _typed(_alias(Event, kind), kind, data)
    except DecodeError:
        _raise_if_error(data)
        raise
    if event.type == WatchEventType.ERROR:
        _raise_if_error(data)
    _expect(kind, event.object)
    if keep:
        event.object.__dict__[_ORIGINAL] = (_LineSource(data), 0)
    return event


def encode(value: Part) -> bytes:
    """Write an object, or a part by itself. An object always says its apiVersion and kind."""
    codec = layout.codec_for(type(value))
    data = original(value)
    if data is None:
        return msgspec.json.encode(codec.plain(value))
    raw = msgspec.Raw(data)
    before = _typed(type(value), type(value), data)
    merged = codec.merge(raw, before, value)
    if isinstance(value, KubeObject):
        # The items of a list of a built-in kind come without these two.
        fields = layout.split(raw) if merged is raw else merged
        if "kind" not in fields or "apiVersion" not in fields:
            merged = {"apiVersion": value.api_version, "kind": value.kind} | fields
    return data if merged is raw else msgspec.json.encode(merged)


def from_dict(kind: type[PartT], tree: Mapping[str, Any]) -> PartT:
    """Read an object from plain JSON types; what the kind does not name is kept."""
    return decode(kind, msgspec.json.encode(tree))


def to_dict(value: Part) -> dict[str, Any]:
    """Write an object as plain JSON types, unknown fields and all."""
    tree: dict[str, Any] = msgspec.json.decode(encode(value))
    return tree


def replace(value: PartT, /, **changes: Any) -> PartT:
    """A copy with some fields changed. The copy of an object keeps the bytes that the first one came from."""
    changed = msgspec.structs.replace(value, **changes)
    if isinstance(value, KubeObject) and _ORIGINAL in value.__dict__:
        changed.__dict__[_ORIGINAL] = value.__dict__[_ORIGINAL]
    return changed


def replace_metadata(value: ObjectT, /, **changes: Any) -> ObjectT:
    """A copy with some fields of its metadata changed."""
    return replace(value, metadata=msgspec.structs.replace(value.metadata, **changes))


def original(value: Part) -> bytes | None:
    """The bytes an object came from, if they were kept."""
    if not isinstance(value, KubeObject):
        return None
    kept: bytes | tuple[_Source, int] | None = value.__dict__.get(_ORIGINAL)
    if isinstance(kept, tuple):
        source, index = kept
        return source.piece(index)
    return kept


@functools.cache
def _alias(generic: Any, kind: Any) -> Any:
    return generic[kind]


def _expect(kind: type[Part], value: KubeObject) -> None:
    if value.kind != (expected := _kind_name(kind)):
        raise DecodeError(f"expected a {expected}, got {'a ' + value.kind if value.kind else 'no kind at all'}")


def _raise_if_error(data: bytes) -> None:
    try:
        line = _line.decode(data)
    except msgspec.DecodeError:
        return
    if line.type == WatchEventType.ERROR:
        raise errors.from_status(msgspec.json.decode(line.object))


def _typed(form: Any, kind: type[Part], data: bytes) -> Any:
    try:
        return _decoder(form).decode(data)
    except msgspec.ValidationError as error:
        # Go reads null as the zero value. It is rare where our types do not allow for it, so only failures pay.
        try:
            return msgspec.convert(_without_nulls(msgspec.json.decode(data)), form)
        except msgspec.ValidationError:
            raise DecodeError(f"not a {kind.__name__}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"not JSON: {error}") from None
    except RecursionError:
        raise DecodeError(f"not a {kind.__name__}: nested too deeply") from None


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [_without_nulls(item) for item in tree]
    return tree


@functools.cache
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form)


@functools.cache
def _kind_name(kind: type[Part]) -> str:
    return str(getattr(kind(), "kind", kind.__name__))
