"""Decodes request bodies in Kubernetes protobuf into JSON objects.

kubectl and every typed client-go client send built-in kinds as protobuf. A body is a magic number and an envelope
(kind, version, content); the content is decoded by the field tables of `types.fields`. The result is the JSON that Go
would write, except that a null (an unset time, an absent list) is left out.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/runtime/serializer/protobuf/protobuf.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/types_proto.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/error.go
"""

from __future__ import annotations

import base64
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from kube_fairlead.api.errors import BadRequest
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.types import protobuf_wire
from kube_fairlead_apiserver.types.fields import Field, TypeRef, describe
from kube_fairlead_apiserver.types.leaf_types import LEAVES, MAGIC
from kube_fairlead_apiserver.types.schemas import type_name

__all__ = ["CONTENT_TYPE", "MAX_DEPTH", "MAX_VALUES", "decode"]

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAX_DEPTH: Final = 128  # nested messages; only JSON schemas and embedded objects have recursive types
# Messages, and items of lists and maps, in one body: a small body of tiny ones must not become a huge object.
MAX_VALUES: Final = 200_000

Span = tuple[int, int]


def decode(body: bytes, default: GroupVersionKind | None = None) -> Json:
    """Decode the object of a request body, or raise BadRequest.

    ``default`` is its kind when the envelope names none.
    """
    try:
        return _Decoder(body, depth=0).object(default)
    except protobuf_wire.WireError as error:
        raise BadRequest(f"the body of the request is no valid protobuf object: {error}") from None


class _Decoder:
    """Decodes one body. Nested objects (raw extensions) have their own decoders and share the count of values."""

    def __init__(self, data: bytes, depth: int, spent: list[int] | None = None) -> None:
        self._data = data
        self._depth = depth
        self._spent = [0] if spent is None else spent

    def object(self, default: GroupVersionKind | None = None) -> Json:
        """Decode the envelope and its content."""
        data = self._data
        if not data.startswith(MAGIC):
            raise protobuf_wire.WireError("it does not start with the expected prefix")
        envelope = self._fields(len(MAGIC), len(data))
        api_version = kind = ""
        if 1 in envelope:
            type_meta = self._fields(*self._span(envelope[1][-1]))
            api_version, kind = self._text(type_meta, 1), self._text(type_meta, 2)
        if self._text(envelope, 3) or self._text(envelope, 4) not in {"", CONTENT_TYPE}:
            raise protobuf_wire.WireError("the envelope's content is not protobuf")
        gvk = GroupVersionKind.of(api_version, kind)
        if default is not None and not (api_version and kind):
            gvk = default
        name = type_name(gvk)
        if name is None:
            raise protobuf_wire.WireError(f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}"')
        content = self.message(name, *self._span(envelope[2][-1])) if 2 in envelope else {}
        return {"apiVersion": gvk.api_version, "kind": gvk.kind, **content}

    def envelope(self, content: bytes) -> Json:
        """Decode an object inside this one."""
        if self._depth >= MAX_DEPTH:
            raise protobuf_wire.WireError("exceeded max depth")
        return _Decoder(content, self._depth + 1, self._spent).object()

    def message(self, name: str, start: int, end: int) -> Any:
        """Decode one message of the named type."""
        if self._depth >= MAX_DEPTH:
            raise protobuf_wire.WireError("exceeded max depth")
        self._count()
        self._depth += 1
        leaf = LEAVES.get(name)
        if leaf is not None:
            value = leaf(self, self._data, self._fields(start, end))
        else:
            value = {}
            self._fill(name, start, end, value)
        self._depth -= 1
        return value

    def _count(self) -> None:
        self._spent[0] += 1
        if self._spent[0] > MAX_VALUES:
            raise protobuf_wire.WireError(f"it has more than {MAX_VALUES} values")

    def _fill(self, name: str, start: int, end: int, out: Json) -> None:
        data, slots, position = self._data, _slots(name), start
        while position < end:
            tag = data[position]
            position += 1
            if tag >= 0x80:  # a call only for the rare long tag: most of the time is spent in this loop
                tag, position = protobuf_wire.read_varint(data, position - 1, end)
            slot = slots.get(tag)
            if slot is not None:
                field, read = slot
                position = read(self, field, position, end, out)
            elif tag >> 3 in _numbers(name):
                raise protobuf_wire.WireError(f"wrong wireType = {tag & 7} for field {_numbers(name)[tag >> 3]}")
            else:
                position = protobuf_wire.skip(data, position, end, tag & 7)

    def _fields(self, start: int, end: int) -> dict[int, list[Any]]:
        """Return every field of a small message: numbers as they are, length-delimited ones as start and end."""
        found: dict[int, list[Any]] = {}
        position = start
        while position < end:
            tag, position = protobuf_wire.read_varint(self._data, position, end)
            value: int | Span
            if tag & 7 == protobuf_wire.VARINT:
                value, position = protobuf_wire.read_varint(self._data, position, end)
            elif tag & 7 == protobuf_wire.LENGTH:
                value = protobuf_wire.read_length(self._data, position, end)
                position = value[1]
            else:
                position = protobuf_wire.skip(self._data, position, end, tag & 7)
                continue
            self._count()
            found.setdefault(tag >> 3, []).append(value)
        return found

    def _text(self, fields: dict[int, list[Any]], number: int) -> str:
        if number not in fields:
            return ""
        start, end = self._span(fields[number][-1])
        return self._data[start:end].decode("utf-8", "replace")

    @staticmethod
    def _span(value: Any) -> Span:
        if not isinstance(value, tuple):
            raise protobuf_wire.WireError("wrong wireType in the envelope")
        return value

    def value(self, reference: TypeRef, position: int, end: int) -> tuple[Any, int]:
        """Return one value, without tag, and where it ends."""
        data = self._data
        if reference.form == "scalar":
            return _SCALARS[reference.name][1](data, position, end)
        start, stop = protobuf_wire.read_length(data, position, end)
        if reference.form == "message":
            return self.message(reference.name, start, stop), stop
        items = []
        if reference.item is not None:  # a wrapped list: field 1, repeated
            for span in self._fields(start, stop).get(1, ()):
                item_start, item_end = self._span(span)
                items.append(data[item_start:item_end].decode("utf-8", "replace"))
        return items, stop

    def read_plain(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read a scalar or a message."""
        value, position = self.value(field.type, position, end)
        if not value and field.omit_empty and not field.type.pointer:
            out.pop(field.name, None)
        else:
            out[field.name] = value
        return position

    def read_message(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read a message; two parts of one message are merged."""
        start, stop = protobuf_wire.read_length(self._data, position, end)
        value = self.message(field.type.name, start, stop)
        if value is None:
            return stop
        present = out.get(field.name)
        if isinstance(present, dict) and isinstance(value, dict):
            present.update(value)
        else:
            out[field.name] = value
        return stop

    def read_embedded(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read a message whose fields belong to the message around it. Such types never nest deeply."""
        start, stop = protobuf_wire.read_length(self._data, position, end)
        self._fill(field.type.name, start, stop, out)
        return stop

    def read_item(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read one item of a list."""
        self._count()
        item = field.type.item
        value, position = self.value(item, position, end) if item else (None, end)
        out.setdefault(field.name, []).append(value)
        return position

    def read_packed(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read several numbers of a list."""
        item = field.type.item
        start, stop = protobuf_wire.read_length(self._data, position, end)
        values = out.setdefault(field.name, [])
        while item is not None and start < stop:
            self._count()
            value, start = self.value(item, start, stop)
            values.append(value)
        return stop

    def read_entry(self, field: Field, position: int, end: int, out: Json) -> int:
        """Read one entry of a map: key and value are fields 1 and 2 of a message."""
        self._count()
        item = field.type.item
        start, stop = protobuf_wire.read_length(self._data, position, end)
        key, value = "", _EMPTY.get(item.name if item else "", "")
        while start < stop:
            tag, start = protobuf_wire.read_varint(self._data, start, stop)
            if tag == 1 << 3 | protobuf_wire.LENGTH:
                key_start, start = protobuf_wire.read_length(self._data, start, stop)
                key = self._data[key_start:start].decode("utf-8", "replace")
            elif tag >> 3 == 2 and item is not None and tag & 7 == _wire_type(item):
                value, start = self.value(item, start, stop)
            else:
                start = protobuf_wire.skip(self._data, start, stop, tag & 7)
        out.setdefault(field.name, {})[key] = value
        return stop


def _string(data: bytes, position: int, end: int) -> tuple[Any, int]:
    start, stop = protobuf_wire.read_length(data, position, end)
    return data[start:stop].decode("utf-8", "replace"), stop


def _bytes(data: bytes, position: int, end: int) -> tuple[Any, int]:
    start, stop = protobuf_wire.read_length(data, position, end)
    return base64.b64encode(data[start:stop]).decode(), stop


def _bool(data: bytes, position: int, end: int) -> tuple[Any, int]:
    value, position = protobuf_wire.read_varint(data, position, end)
    return value != 0, position


def _int32(data: bytes, position: int, end: int) -> tuple[Any, int]:
    value, position = protobuf_wire.read_varint(data, position, end)
    return protobuf_wire.signed(value, 32), position


def _int64(data: bytes, position: int, end: int) -> tuple[Any, int]:
    value, position = protobuf_wire.read_varint(data, position, end)
    return protobuf_wire.signed(value), position


def _float64(data: bytes, position: int, end: int) -> tuple[Any, int]:
    if position + 8 > end:
        raise protobuf_wire.WireError("unexpected EOF")
    (value,) = struct.unpack_from("<d", data, position)
    if not math.isfinite(value):
        raise protobuf_wire.WireError("a number that JSON cannot hold")
    return (int(value) if value.is_integer() else value), position + 8


_SCALARS: Final[dict[str, tuple[int, Callable[[bytes, int, int], tuple[Any, int]]]]] = {
    "bool": (protobuf_wire.VARINT, _bool),
    "bytes": (protobuf_wire.LENGTH, _bytes),
    "float64": (protobuf_wire.FIXED64, _float64),
    "int32": (protobuf_wire.VARINT, _int32),
    "int64": (protobuf_wire.VARINT, _int64),
    "string": (protobuf_wire.LENGTH, _string),
}
_EMPTY: Final[dict[str, Any]] = {"bool": False, "int32": 0, "int64": 0}

_Reader = Callable[[_Decoder, Field, int, int, Json], int]


@functools.cache
def _slots(name: str) -> dict[int, tuple[Field, _Reader]]:
    """Return how each field of a type is read, by tag: its number and wire type."""
    slots: dict[int, tuple[Field, _Reader]] = {}
    for field in describe(name).fields or ():
        if not field.number:
            continue
        item = field.type.item
        if field.type.form == "list" and item is not None and _wire_type(item) != protobuf_wire.LENGTH:
            slots[field.number << 3 | protobuf_wire.LENGTH] = field, _Decoder.read_packed
        slots[field.number << 3 | _wire_type(field.type)] = field, _reader(field)
    return slots


@functools.cache
def _numbers(name: str) -> dict[int, str]:
    return {field.number: field.name for field in describe(name).fields or ()}


def _wire_type(reference: TypeRef) -> int:
    if reference.form == "list" and reference.item is not None:
        return _wire_type(reference.item)
    return _SCALARS[reference.name][0] if reference.form == "scalar" else protobuf_wire.LENGTH


def _reader(field: Field) -> _Reader:
    if field.embedded:
        return _Decoder.read_embedded
    readers: dict[str, _Reader] = {
        "list": _Decoder.read_item,
        "map": _Decoder.read_entry,
        "message": _Decoder.read_message,
    }
    return readers.get(field.type.form, _Decoder.read_plain)
