"""The paths of a driver's two sockets: registration, in the agent's registry, and service."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from kube_fairlead.driverapi import socket_addresses
from kube_fairlead.lifecycle import driver_options

__all__ = ["DEFAULT_REGISTRY", "registration_socket", "service_socket"]

DEFAULT_REGISTRY: Final = Path("/var/lib/fairlead/plugins_registry")


def registration_socket(registry: Path, driver: str, instance: str = "") -> Path:
    """The registration socket of a driver: `reboot.example.com-reg.sock` for `example.com/reboot`.

    Raises:
        socket_addresses.AddressTooLong: the path of the folder is too long.
    """
    socket_addresses.check_folder(registry, flag="--registry-dir")
    return _fitting(registry, _stem(driver, instance), "-reg.sock")


def service_socket(plugins: Path, driver: str, instance: str = "") -> Path:
    """The service socket of a driver.

    Raises:
        socket_addresses.AddressTooLong: the path of the folder is too long.
    """
    socket_addresses.check_folder(plugins, flag="--plugin-dir")
    return _fitting(plugins, _stem(driver, instance), ".sock")


def _stem(driver: str, instance: str) -> str:
    name = driver_options.annotation_prefix(driver).removesuffix("/")
    return f"{name}-{instance}" if instance else name


def _fitting(folder: Path, stem: str, suffix: str) -> Path:
    # Absolute, because the agent has another working directory.
    path = folder.absolute() / f"{stem}{suffix}"
    if len(bytes(path)) <= socket_addresses.PATH_BYTES_MAX:
        return path
    return path.with_name(f"{hashlib.sha256(stem.encode()).hexdigest()[:16]}{suffix}")
