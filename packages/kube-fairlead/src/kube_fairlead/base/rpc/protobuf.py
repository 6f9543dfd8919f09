"""The wire format of protobuf: numbered fields, and the scalar types of proto3. No I/O."""

from __future__ import annotations

import dataclasses
import operator
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["BYTES", "SCALARS", "VARINT", "DecodeError", "Scalar", "fields", "tag", "varint"]

VARINT: Final = 0
_EIGHT_BYTES: Final = 1
BYTES: Final = 2
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FOUR_BYTES: Final = 5
_SIZES: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_VARINT_BYTES: Final = 10
_TAG_BYTES: Final = 5
_LENGTH_MAX: Final = 0x7FFFFFFF
_GROUP_DEPTH_MAX: Final = 100


class DecodeError(Exception):
    """Raised for bytes that are no message."""


def varint(value: int) -> bytes:
    """Encode an integer; a negative one as 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def tag(number: int, wire_type: int) -> bytes:
    """What a field begins with."""
    return varint(number << 3 | wire_type)


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message as they are written: number, wire type, and an integer or bytes. Groups are left out.

    Raises:
        DecodeError: it is no message.
    """
    position = 0
    while position < len(data):
        number, wire_type, position = _read_tag(data, position)
        value, position = _read_value(data, position, number, wire_type, depth=0)
        if wire_type != _GROUP_START:
            yield number, wire_type, value


def _read_tag(data: bytes, position: int) -> tuple[int, int, int]:
    value, end = _read_varint(data, position, _TAG_BYTES)
    if value >> 3 == 0 or value > 0xFFFFFFFF:
        raise DecodeError("a field has no valid number")
    return value >> 3, value & 7, end


def _read_varint(data: bytes, position: int, bytes_max: int = _VARINT_BYTES) -> tuple[int, int]:
    value = 0
    for index in range(bytes_max):
        if position + index >= len(data):
            break
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position + index + 1
    raise DecodeError("an integer has no end")


def _read_value(data: bytes, position: int, number: int, wire_type: int, depth: int) -> tuple[Any, int]:
    if wire_type == VARINT:
        return _read_varint(data, position)
    if wire_type == BYTES:
        length, position = _read_varint(data, position)
    elif wire_type in _SIZES:
        length = _SIZES[wire_type]
    elif wire_type == _GROUP_START and depth < _GROUP_DEPTH_MAX:
        return None, _skip_group(data, position, number, depth)
    else:
        raise DecodeError("a field has no valid type")
    if length > _LENGTH_MAX or position + length > len(data):
        raise DecodeError("a field is longer than its message")
    return data[position : position + length], position + length


def _skip_group(data: bytes, position: int, number: int, depth: int) -> int:
    while True:
        inner, wire_type, position = _read_tag(data, position)
        if wire_type == _GROUP_END:
            if inner != number:
                raise DecodeError("a group ends that did not begin")
            return position
        _, position = _read_value(data, position, inner, wire_type, depth + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar type."""

    wire_type: int
    default: Any
    accept: Callable[[Any], Any]  # the value to store for one that is assigned; raises TypeError or ValueError
    encode: Callable[[Any], bytes]
    decode: Callable[[Any], Any]  # raises ValueError

    def unpack(self, data: bytes) -> Iterator[Any]:
        """The values of a packed field.

        Raises:
            DecodeError: it is none.
        """
        position = 0
        while position < len(data):
            value, position = _read_value(data, position, 0, self.wire_type, depth=0)
            yield self.decode(value)


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def accept(value: Any) -> int:
        number = operator.index(value)
        if not low <= number <= high:
            raise ValueError(f"{number} is not between {low} and {high}")
        return number

    return accept


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits
    return lambda value: (value + half) % whole - half


def _from_zigzag(bits: int) -> Callable[[int], int]:
    def decode(value: int) -> int:
        value %= 1 << bits
        return value >> 1 ^ -(value & 1)

    return decode


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    value.encode()  # a ValueError for half of a surrogate pair
    return value


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not bytes")
    return value


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def _varint_scalar(low: int, high: int, decode: Callable[[int], Any]) -> Scalar:
    return Scalar(VARINT, 0, _integer(low, high), varint, decode)


def _zigzag(bits: int) -> Scalar:
    half = 1 << (bits - 1)
    return Scalar(
        VARINT, 0, _integer(-half, half - 1), lambda value: varint(value << 1 ^ value >> 63), _from_zigzag(bits)
    )


def _fixed(layout: str, accept: Callable[[Any], Any], default: Any = 0) -> Scalar:
    packed = struct.Struct(layout)
    wire_type = _EIGHT_BYTES if packed.size == 8 else _FOUR_BYTES
    return Scalar(wire_type, default, accept, packed.pack, lambda data: packed.unpack(data)[0])


_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_UINT32: Final = (0, (1 << 32) - 1)
_UINT64: Final = (0, (1 << 64) - 1)
# By the numbers of google.protobuf.FieldDescriptorProto.Type. Groups (10) are not in proto3; 11 is a message.
SCALARS: Final[dict[int, Scalar]] = {
    1: _fixed("<d", float, 0.0),
    2: _fixed("<f", float, 0.0),
    3: _varint_scalar(*_INT64, _signed(64)),
    4: _varint_scalar(*_UINT64, int),
    5: _varint_scalar(*_INT32, _signed(32)),
    6: _fixed("<Q", _integer(*_UINT64)),
    7: _fixed("<I", _integer(*_UINT32)),
    8: Scalar(VARINT, False, lambda value: bool(operator.index(value)), varint, bool),
    9: Scalar(BYTES, "", _text, lambda value: _sized(value.encode()), lambda data: data.decode()),
    12: Scalar(BYTES, b"", _raw, _sized, bytes),
    13: _varint_scalar(*_UINT32, lambda value: value & 0xFFFFFFFF),
    14: _varint_scalar(*_INT32, _signed(32)),  # an enumeration, of which unknown numbers are kept
    15: _fixed("<i", _integer(*_INT32)),
    16: _fixed("<q", _integer(*_INT64)),
    17: _zigzag(32),
    18: _zigzag(64),
}
