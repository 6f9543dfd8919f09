"""What happened, in words and as a hash: two runs of one seed must agree on every line."""

from __future__ import annotations

import hashlib

from fairlead.sim.loop import SimLoop

__all__ = ["Trace"]


class Trace:
    """A growing record. Lines are for people; the hash is for comparing runs."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._hash = hashlib.sha256()
        self.lines: list[str] = []

    def add(self, who: str, what: str) -> None:
        """Something happened now."""
        line = f"{self._loop.time():12.6f}  {who:<14} {what}"
        self._hash.update(line.encode() + b"\n")
        self.lines.append(line)

    @property
    def digest(self) -> str:
        """The hash of all lines, and of how many callbacks it took: also what left no line must be the same."""
        whole = self._hash.copy()
        whole.update(str(self._loop.callbacks_run).encode())
        return whole.hexdigest()[:16]
