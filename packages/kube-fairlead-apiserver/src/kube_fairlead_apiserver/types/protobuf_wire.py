"""The protobuf wire format: varints, tags and fields over a byte string. It does not know messages.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/resource/quantity_proto.go
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "WireError",
    "append_field",
    "append_varint",
    "read_length",
    "read_varint",
    "signed",
    "skip",
]

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
_START_GROUP: Final = 3
_END_GROUP: Final = 4
FIXED32: Final = 5


class WireError(ValueError):
    """The bytes are not protobuf, or not of the expected message."""


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return an unsigned 64-bit number and where it ends."""
    if position < end and data[position] < 0x80:
        return data[position], position + 1  # most are small
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position
        shift += 7
        if shift >= 70:
            break
    else:
        raise WireError("unexpected EOF")
    raise WireError("integer overflow")


def read_length(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return where a length-delimited field's content starts and ends."""
    length, start = read_varint(data, position, end)
    stop = start + length
    if stop > end:
        raise WireError("unexpected EOF")
    return start, stop


def signed(value: int, bits: int = 64) -> int:
    """Convert a varint to a signed integer of this size as Go does: higher bits are dropped."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def skip(data: bytes, position: int, end: int, wire_type: int) -> int:
    """Return where an unknown field ends. Nested groups are counted, without recursion."""
    depth = 0
    while True:
        if wire_type == VARINT:
            _, position = read_varint(data, position, end)
        elif wire_type == FIXED64:
            position += 8
        elif wire_type == LENGTH:
            _, position = read_length(data, position, end)
        elif wire_type == FIXED32:
            position += 4
        elif wire_type == _START_GROUP:
            depth += 1
        elif wire_type == _END_GROUP:
            if depth == 0:
                raise WireError("unexpected end of group")
            depth -= 1
        else:
            raise WireError(f"illegal wireType {wire_type}")
        if position > end:
            raise WireError("unexpected EOF")
        if depth == 0:
            return position
        tag, position = read_varint(data, position, end)
        wire_type = tag & 7


def append_varint(out: bytearray, value: int) -> None:
    """Append a number; a negative one takes ten bytes, as in protobuf."""
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_field(out: bytearray, number: int, content: bytes) -> None:
    """Append a length-delimited field."""
    append_varint(out, number << 3 | LENGTH)
    append_varint(out, len(content))
    out += content
