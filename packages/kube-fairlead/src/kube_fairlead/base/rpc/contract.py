"""Message classes, made at run time from a compiled set of `.proto` files."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import Any, Final

from kube_fairlead.base.rpc import protobuf
from kube_fairlead.base.rpc.messages import Descriptor, Field, Message, message_class

__all__ = ["Contract"]

_REPEATED: Final = 3
_MESSAGE: Final = 11


class Contract:
    """The messages and methods of one compiled file, which lies beside the module that names it.

    No generated Python has to match the version of a library. The file is read when the first message is made.
    """

    def __init__(self, package: str, file: str) -> None:
        self._package = package
        self._file = file
        self._classes: dict[str, type[Message]] = {}

    def message(self, full_name: str) -> Any:
        """The class of a message."""
        if full_name not in self._classes:
            descriptor = self._descriptor(full_name, self._content[0][full_name])
            self._classes[full_name] = message_class(descriptor)
        return self._classes[full_name]

    def method_types(self, service: str, method: str) -> tuple[Any, Any]:
        """The classes of a method's request and of its answer."""
        request, answer = self._content[1][f"{service}/{method}"]
        return self.message(request), self.message(answer)

    @functools.cached_property
    def _content(self) -> tuple[dict[str, _Proto], dict[str, tuple[str, str]]]:
        """The descriptors of messages by name, and the names of their messages by method."""
        messages: dict[str, _Proto] = {}
        methods: dict[str, tuple[str, str]] = {}
        for file in _Proto(self._read()).parts(1):
            package = file.text(2)
            for one in file.parts(4):
                _collect(messages, package, one)
            for service in file.parts(6):
                for method in service.parts(2):
                    types = method.text(2).lstrip("."), method.text(3).lstrip(".")
                    methods[f"{package}.{service.text(1)}/{method.text(1)}"] = types
        return messages, methods

    def _read(self) -> bytes:
        # Without importlib.resources, which brings zip files and temporary folders: 1.5 MB.
        beside = sys.modules[self._package].__file__ or ""
        return pathlib.Path(beside).with_name(self._file).read_bytes()

    def _descriptor(self, full_name: str, proto: _Proto) -> Descriptor:
        oneofs = [one.text(1) for one in proto.parts(8)]
        fields = [self._field(one, oneofs) for one in proto.parts(2)]
        return Descriptor(full_name, tuple(sorted(fields, key=lambda field: field.number)))

    def _field(self, proto: _Proto, oneofs: list[str]) -> Field:
        name, kind, is_repeated = proto.text(1), proto.number(5), proto.number(4) == _REPEATED
        oneof = oneofs[proto.number(9)] if proto.has(9) else ""
        entry, message, scalar = None, None, None
        if kind == _MESSAGE:
            type_name = proto.text(6).lstrip(".")
            if self._is_entry(type_name):
                entry = self._later(type_name)
            else:
                message = self._later(type_name)
        else:
            scalar = protobuf.SCALARS[kind]
        return Field(
            name=name,
            number=proto.number(3),
            is_repeated=is_repeated and entry is None,
            oneof=oneof,
            has_presence=bool(oneof),  # an `optional` field is the only one of its own oneof
            scalar=scalar,
            entry=entry,
            message=message,
        )

    def _later(self, type_name: str) -> Callable[[], type[Message]]:
        return lambda: self.message(type_name)  # a message may contain itself

    def _is_entry(self, type_name: str) -> bool:
        return any(options.number(7) for options in self._content[0][type_name].parts(7))


class _Proto:
    """A message of descriptor.proto: its fields by number, as they are written."""

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[Any]] = {}
        for number, _, value in protobuf.fields(data):
            self._values.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._values

    def parts(self, number: int) -> list[_Proto]:
        return [_Proto(value) for value in self._values.get(number, [])]

    def text(self, number: int) -> str:
        return str(self._values.get(number, [b""])[-1], "utf-8")

    def number(self, number: int) -> int:
        return int(self._values.get(number, [0])[-1])


def _collect(messages: dict[str, _Proto], scope: str, proto: _Proto) -> None:
    full_name = f"{scope}.{proto.text(1)}" if scope else proto.text(1)
    messages[full_name] = proto
    for inner in proto.parts(3):
        _collect(messages, full_name, inner)
