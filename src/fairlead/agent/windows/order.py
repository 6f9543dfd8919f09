"""The order in which services hear that the machine goes down: a list of names in the registry.

Those on the list hear it one after the other, everybody else afterwards. A service that needs another to do its work,
as we need the container runtime, must hear it before that one goes away.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final, Protocol

__all__ = ["OrderStore", "Registry", "placed_before"]

_KEY: Final = r"SYSTEM\CurrentControlSet\Control"
_VALUE: Final = "PreshutdownOrder"


def placed_before(service: str, dependencies: Sequence[str], order: Sequence[str]) -> list[str]:
    """The order with the service right before the first of its dependencies, and all of those in the list.

    The names that are there stay in their order; without dependencies nothing changes. Windows does not tell names
    apart by case, and neither does this.
    """
    if not dependencies:
        return list(order)
    placed = [name for name in order if name.casefold() != service.casefold()]
    listed = {name.casefold() for name in placed}
    for name in dependencies:
        if name.casefold() not in listed:
            listed.add(name.casefold())
            placed.append(name)
    needed = {name.casefold() for name in dependencies}
    first = next(index for index, name in enumerate(placed) if name.casefold() in needed)
    placed.insert(first, service)
    return placed


class OrderStore(Protocol):
    """Where the list is kept."""

    def read(self) -> list[str] | None:
        """The list; None when this system has none.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def write(self, order: Sequence[str]) -> None:
        """Keep another list.

        Raises:
            OSError: it cannot be written.
        """
        ...


class Registry:
    """The list of this machine."""

    def __init__(self) -> None:
        self._winreg: Any = importlib.import_module("winreg")

    def read(self) -> list[str] | None:
        """The list; None when the value is missing."""
        winreg = self._winreg
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY, 0, winreg.KEY_QUERY_VALUE) as key:
            try:
                names, kind = winreg.QueryValueEx(key, _VALUE)
            except FileNotFoundError:
                return None
        if kind != winreg.REG_MULTI_SZ:
            raise OSError(f"{_VALUE} in the registry is no list of texts")
        return list(names or ())

    def write(self, order: Sequence[str]) -> None:
        """Write the value."""
        winreg = self._winreg
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY, 0, winreg.KEY_SET_VALUE) as key:
            winreg.SetValueEx(key, _VALUE, 0, winreg.REG_MULTI_SZ, list(order))
