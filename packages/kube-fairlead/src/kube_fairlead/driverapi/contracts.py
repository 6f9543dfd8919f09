"""The compiled `proto/`: message classes and method paths, made at run time from the descriptors beside this file.

The descriptors have a pool of their own, so that a driver which also imports somebody's generated code for the same
messages does not clash with it; and no generated Python has to match the version of the protobuf library.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any, Final

__all__ = [
    "DRIVER_SERVICE",
    "DRIVER_VERSION",
    "HEALTH_SERVICE",
    "MESSAGE_BYTES_MAX",
    "PLUGIN_TYPE",
    "REGISTRATION_SERVICE",
    "message",
    "method_types",
]

PLUGIN_TYPE: Final = "LifecyclePlugin"
# What a driver lists in supported_versions; the full name of the service is DRIVER_SERVICE, as it is with DRA.
DRIVER_VERSION: Final = "v1alpha1.LifecycleDriver"
DRIVER_SERVICE: Final = "fairlead.lifecycle.v1alpha1.LifecycleDriver"
REGISTRATION_SERVICE: Final = "pluginregistration.Registration"
HEALTH_SERVICE: Final = "grpc.health.v1.Health"
MESSAGE_BYTES_MAX: Final = 1 << 20


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(importlib.resources.files(__package__).joinpath("contracts.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


@functools.cache
def message(full_name: str) -> Any:
    """The class of a message, by its full name."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(full_name))


def method_types(service: str, method: str) -> tuple[Any, Any]:
    """The classes of a method's request and of its answer."""
    found = _pool().FindServiceByName(service).FindMethodByName(method)
    return message(found.input_type.full_name), message(found.output_type.full_name)
