"""The record of a run: facts that `narration` puts into words later, and a hash that compares two runs of one seed."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.loop import SimLoop

__all__ = ["PLAN", "Trace", "TraceEntry"]

PLAN: Final = "plan"
"""The actor of an action that has not hit another actor yet."""


class TraceEntry(NamedTuple):
    """One fact: a text, or an object that `narration` describes."""

    at: float
    who: str
    what: object
    action: Action | None = None  # the action that caused it


class Trace:
    """A growing record. It is cheap: texts are made after the run, and only for a failure or on request."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._hash = hashlib.sha256()
        self._action: contextvars.ContextVar[Action | None] = contextvars.ContextVar("action", default=None)
        self.facts: list[TraceEntry] = []

    def add(self, who: str, what: str) -> None:
        """Record a text."""
        at = self._loop.time()
        self._hash.update(f"{at:.6f} {who} {what}\n".encode())
        self.facts.append(TraceEntry(at, who, what, self._action.get()))

    def keep(self, what: object) -> None:
        """Record an object for `narration`. It is not hashed; its content is."""
        self.facts.append(TraceEntry(self._loop.time(), "", what))

    def seal(self, content: bytes) -> None:
        """Add content to the hash only."""
        self._hash.update(content)

    @contextlib.contextmanager
    def during(self, action: Action) -> Iterator[None]:
        """Attribute what this task adds meanwhile to an action."""
        token = self._action.set(action)
        try:
            yield
        finally:
            self._action.reset(token)

    @property
    def digest(self) -> str:
        """The hash of all texts, of all stored content and of the number of callbacks."""
        whole = self._hash.copy()
        whole.update(str(self._loop.callbacks_run).encode())
        return whole.hexdigest()[:16]
