"""Where a driver's sockets are: one that registers it, in the agent's folder, and one that serves it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from fairlead.lifecycle import options

__all__ = ["DEFAULT_REGISTRY", "PATH_BYTES_MAX", "registration_socket", "service_socket"]

DEFAULT_REGISTRY: Final = Path("/var/lib/fairlead/plugins_registry")
# The kernel takes 108 bytes with a terminating zero; one is kept for the leading point of a socket that is not ready.
PATH_BYTES_MAX: Final = 106


def registration_socket(registry: Path, driver: str, instance: str = "") -> Path:
    """Where a driver registers. `example.com/reboot` becomes `reboot.example.com-reg.sock`, as its annotations do."""
    return _fitting(registry, _stem(driver, instance), "-reg.sock")


def service_socket(plugins: Path, driver: str, instance: str = "") -> Path:
    """Where a driver serves."""
    return _fitting(plugins, _stem(driver, instance), ".sock")


def _stem(driver: str, instance: str) -> str:
    name = options.annotation_prefix(driver).removesuffix("/")
    return f"{name}-{instance}" if instance else name


def _fitting(folder: Path, stem: str, suffix: str) -> Path:
    path = folder / f"{stem}{suffix}"
    if len(bytes(path)) <= PATH_BYTES_MAX:
        return path
    return folder / f"{hashlib.sha256(stem.encode()).hexdigest()[:16]}{suffix}"
