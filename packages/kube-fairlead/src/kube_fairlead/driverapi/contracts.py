"""The compiled `proto/`: message classes and methods, created at run time from the descriptors beside this file."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.base.rpc.contract import Contract

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
# The entry of supported_versions. The full name of the service is DRIVER_SERVICE; DRA has the same two names.
DRIVER_VERSION: Final = "v1alpha1.LifecycleDriver"
DRIVER_SERVICE: Final = "fairlead.lifecycle.v1alpha1.LifecycleDriver"
REGISTRATION_SERVICE: Final = "pluginregistration.Registration"
HEALTH_SERVICE: Final = "grpc.health.v1.Health"
MESSAGE_BYTES_MAX: Final = 1 << 20


_CONTRACT: Final = Contract(__package__ or "", "contracts.binpb")


def message(full_name: str) -> Any:
    """The class of a message, by its full name."""
    return _CONTRACT.message(full_name)


def method_types(service: str, method: str) -> tuple[Any, Any]:
    """The classes of a method's request and response."""
    return _CONTRACT.method_types(service, method)
