"""Messages of protobuf, as classes that are made from descriptors at run time.

They have the names that Google's library gives the same methods, so that a reader knows them, and as much of it as the
contracts use: proto3 without groups and extensions. Unknown fields are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Self

from kube_fairlead.base.rpc import protobuf
from kube_fairlead.base.rpc.protobuf import DecodeError, Scalar

__all__ = ["Descriptor", "Field", "Message", "message_class"]

_DEPTH_MAX: Final = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message. Exactly one of `scalar`, `entry` and `message` is set."""

    name: str
    number: int
    is_repeated: bool = False
    oneof: str = ""
    has_presence: bool = False  # a scalar whose default is written too if it was set
    scalar: Scalar | None = None
    entry: Callable[[], type[Message]] | None = None  # a map, whose entries are messages with a key and a value
    message: Callable[[], type[Message]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Descriptor:
    """What a message is made of."""

    full_name: str
    fields: tuple[Field, ...]  # by number

    @property
    def name(self) -> str:
        """The name without its package."""
        return self.full_name.rpartition(".")[2]


class Message:
    """One message.

    A message inside of it that was only read is not there; with its first value it is. The other fields of its `oneof`
    must be cleared by the caller then.
    """

    DESCRIPTOR: ClassVar[Descriptor]
    _by_name: ClassVar[dict[str, Field]]
    _by_number: ClassVar[dict[int, Field]]

    __slots__ = ("_read", "_values")

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_read", {})  # messages that are there once they have a value
        for name, value in values.items():
            if value is not None:
                self._fill(self._field(name), value)

    def __getattr__(self, name: str) -> Any:
        field = self._by_name.get(name)
        if field is None:
            raise AttributeError(f"{self.DESCRIPTOR.full_name} has no field {name}")
        values: dict[str, Any] = self._values
        if name in values:
            return values[name]
        if field.entry is not None:
            return values.setdefault(name, {})
        if field.is_repeated:
            return values.setdefault(name, _Repeated(field.message))
        if field.message is not None:
            return self._read.setdefault(name, field.message()())
        return field.scalar.default if field.scalar is not None else None

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._by_name.get(name)
        if field is None or field.scalar is None or field.is_repeated:
            raise AttributeError(f"{self.DESCRIPTOR.full_name} has no field {name} that can be assigned")
        self._set(field, field.scalar.accept(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and type(self) is type(other) and self.present() == other.present()

    __hash__: ClassVar[None]  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"{self.DESCRIPTOR.name}({', '.join(f'{name}={value!r}' for name, value in self.present().items())})"

    def HasField(self, name: str) -> bool:  # noqa: N802 - Google's name
        """Whether a field that can be absent is there."""
        return self._is_set(self._field(name))

    def WhichOneof(self, name: str) -> str | None:  # noqa: N802 - Google's name
        """The field of a `oneof` that is there."""
        return next((one.name for one in self.DESCRIPTOR.fields if one.oneof == name and self._is_set(one)), None)

    def ClearField(self, name: str) -> None:  # noqa: N802 - Google's name
        """Remove a field."""
        self._values.pop(name, None)
        self._read.pop(name, None)

    def SerializeToString(self) -> bytes:  # noqa: N802 - Google's name
        """The message as bytes."""
        return b"".join(part for field in self.DESCRIPTOR.fields for part in self._encoded(field))

    def ByteSize(self) -> int:  # noqa: N802 - Google's name
        """The length of the message as bytes."""
        return len(self.SerializeToString())

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802 - Google's name
        """Read a message.

        Raises:
            DecodeError: the bytes are none.
        """
        made = cls()
        try:
            made.merge(bytes(data))
        except ValueError as error:
            raise DecodeError(f"a field of {cls.DESCRIPTOR.full_name} is not of its type") from error
        return made

    def _field(self, name: str) -> Field:
        if name not in self._by_name:
            raise ValueError(f"{self.DESCRIPTOR.full_name} has no field {name}")
        return self._by_name[name]

    def _fill(self, field: Field, value: Any) -> None:
        if field.entry is not None:
            entries = [field.entry()(key=one, value=other) for one, other in value.items()]
            self._values[field.name] = {one.key: one.value for one in entries}
        elif field.is_repeated:
            self._values[field.name] = _Repeated(field.message, (_accepted(field, one) for one in value))
        else:
            self._set(field, _accepted(field, value))

    def _set(self, field: Field, value: Any) -> None:
        if field.oneof:
            for one in self.DESCRIPTOR.fields:
                if one.oneof == field.oneof and one is not field:
                    self.ClearField(one.name)
        self._values[field.name] = value

    def _is_set(self, field: Field) -> bool:
        if field.name in self._read:
            return bool(self._read[field.name].is_touched)
        if field.name not in self._values:
            return False
        value = self._values[field.name]
        if field.entry is not None or field.is_repeated:
            return bool(value)
        if field.scalar is None or field.has_presence:
            return True
        # By their bytes, because a negative zero is not the default.
        return field.scalar.encode(value) != field.scalar.encode(field.scalar.default)

    @property
    def is_touched(self) -> bool:
        """Whether a field was set, also to its default."""
        return any(
            field.scalar is not None and not field.is_repeated and field.name in self._values
            for field in self.DESCRIPTOR.fields
        ) or bool(self.present())

    def present(self) -> dict[str, Any]:
        """The fields that are there."""
        return {field.name: getattr(self, field.name) for field in self.DESCRIPTOR.fields if self._is_set(field)}

    def _encoded(self, field: Field) -> Iterator[bytes]:
        if not self._is_set(field):
            return
        value = getattr(self, field.name)
        if field.entry is not None:
            for one, other in value.items():
                yield _delimited(field.number, field.entry()(key=one, value=other).SerializeToString())
        elif field.scalar is None:
            for one in value if field.is_repeated else [value]:
                yield _delimited(field.number, one.SerializeToString())
        elif field.is_repeated and field.scalar.wire_type != protobuf.BYTES:
            yield _delimited(field.number, b"".join(field.scalar.encode(field.scalar.accept(one)) for one in value))
        else:
            for one in value if field.is_repeated else [value]:
                yield protobuf.tag(field.number, field.scalar.wire_type) + field.scalar.encode(field.scalar.accept(one))

    def merge(self, data: bytes, depth: int = 0) -> None:
        """Add what bytes say.

        Raises:
            DecodeError: they are no message.
            ValueError: a field is not of its type.
        """
        if depth > _DEPTH_MAX:
            raise DecodeError("messages are nested too deeply")
        for number, wire_type, value in protobuf.fields(data):
            field = self._by_number.get(number)
            if field is None:
                continue
            if field.scalar is not None:
                self._merge_scalar(field, field.scalar, wire_type, value)
            elif wire_type != protobuf.BYTES:
                continue
            elif field.entry is not None:
                entry = _merged(field.entry()(), value, depth)
                getattr(self, field.name)[entry.key] = entry.value
            elif field.message is not None and field.is_repeated:
                getattr(self, field.name).append(_merged(field.message()(), value, depth))
            elif field.message is not None:
                self._set(field, _merged(self._values.get(field.name) or field.message()(), value, depth))

    def _merge_scalar(self, field: Field, scalar: Scalar, wire_type: int, value: Any) -> None:
        if wire_type == scalar.wire_type:
            decoded = scalar.decode(value)
            if field.is_repeated:
                getattr(self, field.name).append(decoded)
            else:
                self._set(field, decoded)
        elif field.is_repeated and wire_type == protobuf.BYTES:
            getattr(self, field.name).extend(scalar.unpack(value))


class _Repeated(list[Any]):
    """The values of a repeated field."""

    def __init__(self, message: Callable[[], type[Message]] | None, values: Iterator[Any] | tuple[()] = ()) -> None:
        super().__init__(values)
        self._message = message

    def add(self, **values: Any) -> Any:
        """Append a message."""
        if self._message is None:
            raise AttributeError("only repeated messages are added to")
        self.append(self._message()(**values))
        return self[-1]


def message_class(descriptor: Descriptor) -> type[Message]:
    """The class of the messages that a descriptor describes."""
    content = {
        "__slots__": (),
        "DESCRIPTOR": descriptor,
        "_by_name": {field.name: field for field in descriptor.fields},
        "_by_number": {field.number: field for field in descriptor.fields},
    }
    return type(descriptor.name, (Message,), content)


def _accepted(field: Field, value: Any) -> Any:
    if field.scalar is not None:
        return field.scalar.accept(value)
    if field.message is None or not isinstance(value, field.message()):
        raise TypeError(f"{value!r} is no value for the field {field.name}")
    return value


def _delimited(number: int, data: bytes) -> bytes:
    return protobuf.tag(number, protobuf.BYTES) + protobuf.varint(len(data)) + data


def _merged(message: Message, data: bytes, depth: int) -> Any:
    message.merge(data, depth + 1)
    return message
