"""Where a driver's sockets are: one that registers it, in the agent's folder, and one that serves it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from kube_fairlead.driverapi import socket_addresses
from kube_fairlead.lifecycle import driver_options

__all__ = ["DEFAULT_REGISTRY", "registration_socket", "service_socket"]

DEFAULT_REGISTRY: Final = Path("/var/lib/fairlead/plugins_registry")


def registration_socket(registry: Path, driver: str, instance: str = "") -> Path:
    """Where a driver registers. `example.com/reboot` becomes `reboot.example.com-reg.sock`, as its annotations do.

    Raises:
        addresses.AddressTooLong: no name fits behind such a folder.
    """
    socket_addresses.check_folder(registry, flag="--registry-dir")
    return _fitting(registry, _stem(driver, instance), "-reg.sock")


def service_socket(plugins: Path, driver: str, instance: str = "") -> Path:
    """Where a driver serves.

    Raises:
        addresses.AddressTooLong: no name fits behind such a folder.
    """
    socket_addresses.check_folder(plugins, flag="--plugin-dir")
    return _fitting(plugins, _stem(driver, instance), ".sock")


def _stem(driver: str, instance: str) -> str:
    name = driver_options.annotation_prefix(driver).removesuffix("/")
    return f"{name}-{instance}" if instance else name


def _fitting(folder: Path, stem: str, suffix: str) -> Path:
    # Absolute, because the agent runs in another folder.
    path = folder.absolute() / f"{stem}{suffix}"
    if len(bytes(path)) <= socket_addresses.PATH_BYTES_MAX:
        return path
    return path.with_name(f"{hashlib.sha256(stem.encode()).hexdigest()[:16]}{suffix}")
