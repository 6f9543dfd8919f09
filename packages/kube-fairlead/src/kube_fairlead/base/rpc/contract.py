"""Message classes, made at run time from a compiled set of `.proto` files."""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

__all__ = ["Contract"]


class Contract:
    """The messages and methods of one compiled file.

    It has a descriptor pool of its own, so that a process which also imports generated code for the same messages does
    not clash with it; and no generated Python has to match the version of the protobuf library. The library and the
    file are loaded when the first message is made.
    """

    def __init__(self, package: str, file: str) -> None:
        self._package = package
        self._file = file

    def message(self, full_name: str) -> Any:
        """The class of a message."""
        return _message_class(self, full_name)

    def method_types(self, service: str, method: str) -> tuple[Any, Any]:
        """The classes of a method's request and of its answer."""
        found = self.pool.FindServiceByName(service).FindMethodByName(method)
        return self.message(found.input_type.full_name), self.message(found.output_type.full_name)

    @functools.cached_property
    def pool(self) -> Any:
        """The descriptors."""
        from google.protobuf import descriptor_pb2, descriptor_pool

        files = descriptor_pb2.FileDescriptorSet()
        files.ParseFromString(importlib.resources.files(self._package).joinpath(self._file).read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return pool


@functools.cache
def _message_class(contract: Contract, full_name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(contract.pool.FindMessageTypeByName(full_name))
