"""Messages of D-Bus as bytes, as the D-Bus specification 0.43 describes them. No I/O."""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

__all__ = [
    "HEAD_BYTES",
    "MESSAGE_BYTES_MAX",
    "Kind",
    "MalformedMessage",
    "Message",
    "decode",
    "descriptor_count",
    "encode",
    "size",
]

HEAD_BYTES: Final = 16
MESSAGE_BYTES_MAX: Final = 4 << 20  # the list of inhibitors is the longest that is asked for
_NO_REPLY: Final = 1
_VERSION: Final = 1
_DEPTH_MAX: Final = 64
_FIXED: Final = {"y": "B", "b": "I", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "h": "I"}
_ALIGNMENTS: Final = {**{kind: struct.calcsize(code) for kind, code in _FIXED.items()}, "g": 1, "v": 1, "(": 8, "{": 8}
_UNREADABLE: Final = (struct.error, ValueError, IndexError, TypeError)
_BASIC: Final = frozenset("ybnqiuxtdsogh")


class MalformedMessage(Exception):
    """Raised for bytes that are no message."""


class Kind(enum.IntEnum):
    """What a message is."""

    CALL = 1
    RETURN = 2
    ERROR = 3
    SIGNAL = 4


class _HeaderField(enum.IntEnum):
    PATH = 1
    INTERFACE = 2
    MEMBER = 3
    ERROR_NAME = 4
    REPLY_SERIAL = 5
    DESTINATION = 6
    SENDER = 7
    SIGNATURE = 8
    UNIX_FDS = 9


_HEADER_KINDS: Final = {
    _HeaderField.PATH: "o",
    _HeaderField.REPLY_SERIAL: "u",
    _HeaderField.SIGNATURE: "g",
    _HeaderField.UNIX_FDS: "u",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. Of a struct or an array the body has a list, of a variant its value, of a handle its descriptor."""

    kind: Kind
    serial: int
    path: str = ""
    interface: str = ""
    member: str = ""
    error_name: str = ""
    reply_serial: int = 0
    destination: str = ""
    sender: str = ""
    signature: str = ""
    body: Sequence[Any] = ()
    wants_reply: bool = True


def encode(message: Message) -> bytes:
    """The bytes of a message whose body has values of basic types only, and no handles."""
    body = _Writer()
    for kind, value in zip(message.signature, message.body, strict=True):
        body.put(kind, value)
    head = _Writer()
    head.data += struct.pack(
        "<4BII",
        ord("l"),
        message.kind,
        0 if message.wants_reply else _NO_REPLY,
        _VERSION,
        len(body.data),
        message.serial,
    )
    head.data += bytes(4)  # the length of the fields, once it is known
    for field in _HeaderField:
        value = getattr(message, field.name.lower(), None)
        if value:
            head.align(8)
            head.put("y", field)
            kind = _HEADER_KINDS.get(field, "s")
            head.put("g", kind)
            head.put(kind, value)
    struct.pack_into("<I", head.data, 12, len(head.data) - HEAD_BYTES)
    head.align(8)
    return bytes(head.data + body.data)


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, kind: str, value: Any) -> None:
        if kind in {"s", "o", "g"}:
            text = value.encode()
            self.put("y" if kind == "g" else "u", len(text))
            self.data += text + b"\0"
        else:
            self.align(_ALIGNMENTS[kind])
            self.data += struct.pack(f"<{_FIXED[kind]}", value)


def size(head: bytes) -> int:
    """The length of the message that begins with these 16 bytes.

    Raises:
        MalformedMessage: they begin none.
    """
    if head[:1] not in {b"l", b"B"} or head[3] != _VERSION:
        raise MalformedMessage("it does not begin as a message")
    order = "<" if head[:1] == b"l" else ">"
    body, fields = struct.unpack_from(f"{order}I4xI", head, 4)
    total: int = HEAD_BYTES + fields + -fields % 8 + body
    if total > MESSAGE_BYTES_MAX:
        raise MalformedMessage(f"it has {total} bytes")
    return total


def descriptor_count(data: bytes) -> int:
    """How many descriptors belong to a message.

    Raises:
        MalformedMessage: it is none.
    """
    count = _read_head(_Reader(data, ())).get("unix_fds", 0)
    return count if isinstance(count, int) else 0


def decode(data: bytes, descriptors: Sequence[int] = ()) -> Message:
    """Read a message.

    Args:
        data: the whole message.
        descriptors: those that arrived with it.

    Raises:
        MalformedMessage: it is none.
    """
    reader = _Reader(data, descriptors)
    named = _read_head(reader)
    named.pop("unix_fds", None)
    try:
        kind, body_size, serial = Kind(data[1]), reader.fixed_at("I", 4), reader.fixed_at("I", 8)
        reader.begin_body()
        body = [reader.read(one) for one in _complete_types(named.get("signature", ""))]
    except _UNREADABLE as error:
        raise MalformedMessage(f"it cannot be read: {error}") from error
    if reader.position != body_size or len(reader.data) != body_size:
        raise MalformedMessage("its body does not have the length that its head says")
    return Message(kind=kind, serial=serial, body=body, wants_reply=not data[2] & _NO_REPLY, **named)


def _read_head(reader: _Reader) -> dict[str, Any]:
    """The fields of the head, by name; those that are not known are left out."""
    names = {field.value: field.name.lower() for field in _HeaderField}
    reader.position = 12
    try:
        named = {names[code]: value for code, value in reader.read("a(yv)") if code in names}
    except _UNREADABLE as error:
        raise MalformedMessage(f"it cannot be read: {error}") from error
    for name, value in named.items():
        if not isinstance(value, int if name in {"reply_serial", "unix_fds"} else str):
            raise MalformedMessage(f"its {name} has the wrong type")
    return named


class _Reader:
    def __init__(self, data: bytes, descriptors: Sequence[int]) -> None:
        self.data = data
        self.position = 0
        self._order = "<" if data[:1] == b"l" else ">"
        self._descriptors = descriptors
        self._depth = 0

    def align(self, size: int) -> None:
        self.position += -self.position % size

    def begin_body(self) -> None:
        """The fields of the head are read; the rest is the body, whose values are aligned to its beginning."""
        self.align(8)
        self.data = self.data[self.position :]
        self.position = 0

    def fixed_at(self, code: str, position: int) -> Any:
        (value,) = struct.unpack_from(self._order + code, self.data, position)
        return value

    def read(self, kind: str) -> Any:
        """The value of one complete type."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise MalformedMessage("it is nested too deeply")
        self.align(_ALIGNMENTS.get(kind[0], 4))
        value: Any
        match kind[0]:
            case "s" | "o":
                value = self._text(self._fixed("I"))
            case "g":
                value = self._text(self._fixed("B"))
            case "v":
                (inner,) = _complete_types(self._text(self._fixed("B")))
                value = self.read(inner)
            case "a":
                value = self._array(kind[1:])
            case "(" | "{":
                value = [self.read(one) for one in _complete_types(kind[1:-1])]
            case "h":
                value = self._descriptors[self._fixed("I")]
            case _:
                value = self._fixed(_FIXED[kind[0]])
                value = bool(value) if kind == "b" else value
        self._depth -= 1
        return value

    def _fixed(self, code: str) -> Any:
        value = self.fixed_at(code, self.position)
        self.position += struct.calcsize(code)
        return value

    def _text(self, length: int) -> str:
        end = self.position + length
        if self.data[end : end + 1] != b"\0":
            raise MalformedMessage("a text has no end")
        text = self.data[self.position : end].decode()
        self.position = end + 1
        return text

    def _array(self, kind: str) -> Any:
        length = self._fixed("I")
        self.align(_ALIGNMENTS.get(kind[0], 4))
        end = self.position + length
        if end > len(self.data):
            raise MalformedMessage("an array is longer than its message")
        items = []
        while self.position < end:
            items.append(self.read(kind))
        if self.position != end:
            raise MalformedMessage("an array does not have the length that it says")
        return dict(items) if kind[0] == "{" else items


def _complete_types(signature: str) -> Iterator[str]:
    """The types of a signature, one by one."""
    position = 0
    while position < len(signature):
        end = _type_end(signature, position)
        yield signature[position:end]
        position = end


def _type_end(signature: str, start: int) -> int:
    position = start
    while signature[position] == "a":
        position += 1
    if signature[position] not in {"(", "{"}:
        if signature[position] not in _BASIC | {"v"}:
            raise MalformedMessage(f"{signature!r} is no signature")
        return position + 1
    closing = ")" if signature[position] == "(" else "}"
    is_entry, count, position = closing == "}", 0, position + 1
    while signature[position] != closing:
        if is_entry and count == 0 and signature[position] not in _BASIC:
            raise MalformedMessage(f"{signature!r} is no signature")
        position = _type_end(signature, position)
        count += 1
    if count == 0 or (is_entry and (count != 2 or signature[start] != "a")):
        raise MalformedMessage(f"{signature!r} is no signature")
    return position + 1
