"""The process environment as a thing that is passed in. Nothing else reads `os.environ`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

__all__ = ["Environment"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


class Environment:
    """Variables by name; a test hands in its own."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    @classmethod
    def of_process(cls) -> Environment:
        """This process's own environment, live."""
        return cls(os.environ)

    def get(self, name: str) -> str | None:
        """The value, or None when it is unset or empty, which mean the same everywhere here."""
        return self._variables.get(name) or None

    def flag(self, name: str) -> bool:
        """A switch: 1, true, yes, on against 0, false, no, off or nothing.

        Raises:
            ValueError: it says something else.
        """
        value = self._variables.get(name, "").strip().lower()
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise ValueError(f"{name}={value!r} must be one of 1, true, yes, on, 0, false, no, off")

    def home(self) -> pathlib.Path:
        """The user's home folder."""
        if named := self.get("HOME") or self.get("USERPROFILE"):
            return pathlib.Path(named)
        return pathlib.Path("~").expanduser()

    def as_dict(self) -> dict[str, str]:
        """A copy of all variables, for a child process."""
        return dict(self._variables)
