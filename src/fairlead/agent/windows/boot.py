"""Which boot of a Windows machine this is: a number that the system counts up. The kubelet puts it on its Node."""

from __future__ import annotations

import importlib
from typing import Any, Final

__all__ = ["boot_id"]

_KEY: Final = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
_VALUE: Final = "BootId"


def boot_id() -> str:
    """The number as text; empty where the system does not count."""
    winreg: Any = importlib.import_module("winreg")
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY, 0, winreg.KEY_QUERY_VALUE) as key:
            return str(winreg.QueryValueEx(key, _VALUE)[0])
    except OSError:
        return ""
