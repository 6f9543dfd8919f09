"""How the fields of typed kinds lie on the wire, and how a change is laid over the original bytes.

A `Codec` stands for one type. It writes a value as plain JSON types, and it merges: given the original bytes, the value
they decoded to, and a new value, it answers with what to write so that everything not named by the type, and everything
not changed, stays byte for byte as it was.
"""

from __future__ import annotations

import datetime as dt
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kube_fairlead.api import parts
from kube_fairlead.api import time as api_time

__all__ = ["Codec", "codec_for", "split"]

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


class Codec:
    """A value without inner structure that we know of: text, numbers, or arbitrary JSON."""

    # Whether Python's == is exact. It is not for arbitrary JSON, where 1 == True == 1.0.
    exact: bool = True

    def plain(self, value: Any) -> Any:
        """The value as plain JSON types."""
        return value

    def same(self, old: Any, new: Any) -> bool:
        """Whether nothing changed."""
        return bool(old == new)

    def merge(self, raw: msgspec.Raw, old: Any, new: Any) -> Any:
        """What to write for `new` where `raw` stood, which decoded to `old`."""
        return raw if self.same(old, new) else self.plain(new)


class _Json(Codec):
    """Arbitrary JSON."""

    exact = False

    def same(self, old: Any, new: Any) -> bool:
        return msgspec.json.encode(old) == msgspec.json.encode(new)


class _Time(Codec):
    def plain(self, value: dt.datetime) -> str:
        return api_time.format_time(value)


class _MicroTime(Codec):
    def plain(self, value: dt.datetime) -> str:
        return api_time.format_micro_time(value)


class _Map(Codec):
    """A map with string keys; the key identifies an entry."""

    def __init__(self, value: Codec) -> None:
        self._value = value
        self.exact = value.exact

    def plain(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._value.plain(entry) for key, entry in value.items()}

    def same(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        if self.exact:
            return old == new
        return old.keys() == new.keys() and all(self._value.same(old[key], new[key]) for key in new)

    def merge(self, raw: msgspec.Raw, old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
        if self.same(old, new):
            return raw
        entries = split(raw)
        return {
            key: self._value.merge(entries[key], old[key], entry)
            if key in entries and key in old
            else self._value.plain(entry)
            for key, entry in new.items()
        }


class _List(Codec):
    """A list. Items with a merge key are found by it; others if they are equal, or at the same place."""

    def __init__(self, item: Codec) -> None:
        self._item = item
        self.exact = item.exact

    def plain(self, value: Sequence[Any]) -> list[Any]:
        return [self._item.plain(item) for item in value]

    def same(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        if self.exact:
            return old == new
        return len(old) == len(new) and all(map(self._item.same, old, new))

    def merge(self, raw: msgspec.Raw, old: Sequence[Any], new: Sequence[Any]) -> Any:
        if self.same(old, new):
            return raw
        raws = _array(raw)
        if len(raws) != len(old):
            return self.plain(new)
        origins = self._origins(old, new)
        return [
            self._item.plain(item) if origin is None else self._item.merge(raws[origin], old[origin], item)
            for item, origin in zip(new, origins, strict=True)
        ]

    def _origins(self, old: Sequence[Any], new: Sequence[Any]) -> list[int | None]:
        """For each new item the index of the old item it came from."""
        if isinstance(self._item, _Struct) and self._item.merge_key:
            return _by_key(old, new, self._item.merge_key)
        free = list(range(len(old)))
        origins: list[int | None] = []
        for item in new:
            found = next((i for i in free if self._item.same(old[i], item)), None)
            if found is not None:
                free.remove(found)
            origins.append(found)
        # A changed item without a key is the one at its place, but only while no item came or went: else it would
        # inherit unknown fields from a stranger.
        if len(old) == len(new):
            origins = [i if origin is None and i in free else origin for i, origin in enumerate(origins)]
        return origins


def _by_key(old: Sequence[Any], new: Sequence[Any], names: tuple[str, ...]) -> list[int | None]:
    waiting: dict[tuple[Any, ...], list[int]] = {}
    for i, item in enumerate(old):
        waiting.setdefault(tuple(getattr(item, name) for name in names), []).append(i)
    origins: list[int | None] = []
    for item in new:
        # Doubled keys are invalid but do exist; they pair up in order.
        candidates = waiting.get(tuple(getattr(item, name) for name in names))
        origins.append(candidates.pop(0) if candidates else None)
    return origins


class _Field(typing.NamedTuple):
    name: str
    wire_name: str
    codec: Codec
    default: Any  # NODEFAULT for a field that is always written

    def is_default(self, value: Any) -> bool:
        return self.default is not msgspec.NODEFAULT and value == self.default

    def same(self, old: Any, new: Any) -> bool:
        if old is None or new is None:
            return old is new
        return self.codec.same(old, new)


class _Struct(Codec):
    """A struct, field by field."""

    def __init__(self, cls: type[parts.Part]) -> None:
        self.merge_key = cls.MERGE_KEY
        self._cls = cls

    @functools.cached_property
    def _fields(self) -> tuple[_Field, ...]:
        # Lazily, because a type may contain itself.
        return tuple(
            _Field(info.name, info.encode_name, _codec(info.type), _default(info))
            for info in msgspec.structs.fields(self._cls)
        )

    @functools.cached_property
    def exact(self) -> bool:  # type: ignore[override]  # a constant for the other codecs, computed once for this one
        self.__dict__["exact"] = True  # for a type that contains itself, where itself adds nothing
        return all(field.codec.exact for field in self._fields)

    def plain(self, value: parts.Part) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in self._fields:
            item = getattr(value, field.name)
            if item is not None and not field.is_default(item):
                out[field.wire_name] = field.codec.plain(item)
        return out

    def same(self, old: parts.Part, new: parts.Part) -> bool:
        if self.exact:
            return old == new
        return all(field.same(getattr(old, field.name), getattr(new, field.name)) for field in self._fields)

    def merge(self, raw: msgspec.Raw, old: parts.Part, new: parts.Part) -> Any:
        if self.same(old, new):
            return raw
        out: dict[str, Any] = dict(split(raw))
        for field in self._fields:
            before, after = getattr(old, field.name), getattr(new, field.name)
            if field.same(before, after):
                continue
            key = field.wire_name
            # A struct that went back to its default still has its unknown fields; anything else is just gone.
            gone = after is None or (field.is_default(after) and not isinstance(field.codec, _Struct))
            if gone:
                out.pop(key, None)
            elif key in out and before is not None:
                out[key] = field.codec.merge(out[key], before, after)
            elif not field.is_default(after):
                out[key] = field.codec.plain(after)
        return out


def split(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The fields of a JSON object, each still as bytes; null has none."""
    return _OBJECT.decode(raw) or {}


def _array(raw: msgspec.Raw) -> list[msgspec.Raw]:
    return _ARRAY.decode(raw) or []


def _default(info: msgspec.structs.FieldInfo) -> Any:
    return {} if info.default_factory is dict else info.default


_LEAF: Final = Codec()
_SIMPLE: Final[dict[Any, Codec]] = {
    dt.datetime: _Time(),
    Any: _Json(),
    object: _Json(),
    msgspec.Raw: _Json(),
}


def _codec(hint: Any) -> Codec:
    """The codec of a type as a kind declares it."""
    if hint == parts.MicroTime:
        return _MicroTime()
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _codec(typing.get_args(hint)[0])
    if origin in {typing.Union, types.UnionType}:
        codecs = {id(found): found for arm in typing.get_args(hint) if (found := _codec(arm)) is not _LEAF}
        return next(iter(codecs.values()), _LEAF)
    if origin is dict:
        return _Map(_codec(typing.get_args(hint)[1]))
    if origin in {tuple, list}:
        return _List(_codec(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, parts.Part):
        return codec_for(hint)
    return _SIMPLE.get(hint, _LEAF)


@functools.cache
def codec_for(cls: type[parts.Part]) -> Codec:
    """The codec of a kind or a part."""
    return _Struct(cls)
