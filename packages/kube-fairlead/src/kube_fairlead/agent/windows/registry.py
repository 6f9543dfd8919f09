"""Read and write the Windows registry: the order of services in a shutdown, their dependencies, the boot id."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Registry"]

_CONTROL: Final = r"SYSTEM\CurrentControlSet\Control"
_ORDER: Final = "PreshutdownOrder"
_SERVICES: Final = r"SYSTEM\CurrentControlSet\Services"
_DEPENDENCIES: Final = "DependOnService"
_BOOT: Final = rf"{_CONTROL}\Session Manager\Memory Management\PrefetchParameters"
_BOOT_ID: Final = "BootId"


class Registry:
    """The registry of this machine.

    Raises (every method): OSError.
    """

    def __init__(self) -> None:
        self._winreg: Any = importlib.import_module("winreg")

    def order(self) -> list[str] | None:
        """Return the services that are notified of a shutdown in order; None when there is no such list."""
        return self._texts(_CONTROL, _ORDER)

    def set_order(self, order: Sequence[str]) -> None:
        """Replace the list."""
        winreg = self._winreg
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _CONTROL, 0, winreg.KEY_SET_VALUE) as key:
            winreg.SetValueEx(key, _ORDER, 0, winreg.REG_MULTI_SZ, list(order))

    def dependencies(self, service: str) -> list[str]:
        """Return the services that must run before this one."""
        return self._texts(rf"{_SERVICES}\{service}", _DEPENDENCIES) or []

    def boot_id(self) -> str:
        """Return the number of boots, which is the kubelet's boot id too; empty when Windows has none."""
        value, _ = self._read(_BOOT, _BOOT_ID)
        return "" if value is None else str(value)

    def _texts(self, path: str, name: str) -> list[str] | None:
        value, kind = self._read(path, name)
        if kind is None:
            return None
        if kind != self._winreg.REG_MULTI_SZ:
            raise OSError(f"{name} in the registry is not a list of strings")
        return list(value or ())

    def _read(self, path: str, name: str) -> tuple[Any, int | None]:
        winreg = self._winreg
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path, 0, winreg.KEY_QUERY_VALUE) as key:
                value, kind = winreg.QueryValueEx(key, name)
                return value, int(kind)
        except FileNotFoundError:
            return None, None
