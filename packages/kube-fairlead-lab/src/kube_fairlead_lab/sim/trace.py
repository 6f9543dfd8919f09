"""What happened: facts as they are for whoever tells them later, and a hash by which two runs of one seed compare."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kube_fairlead_lab.sim.loop import SimLoop
from kube_fairlead_lab.sim.plan import Action

__all__ = ["PLAN", "Fact", "Trace"]

PLAN: Final = "luck"
"""Who a action is ascribed to, for as long as nobody else has felt it."""


class Fact(NamedTuple):
    """Something that happened: in words already, or as whatever it is (`narration` makes words of it)."""

    at: float
    who: str
    what: object
    action: Action | None = None  # the action that it is part of


class Trace:
    """A growing record. It costs next to nothing: words are made when somebody asks, and mostly nobody does."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._hash = hashlib.sha256()
        self._action: contextvars.ContextVar[Action | None] = contextvars.ContextVar("action", default=None)
        self.facts: list[Fact] = []

    def add(self, who: str, what: str) -> None:
        """Something happened now."""
        at = self._loop.time()
        self._hash.update(f"{at:.6f} {who} {what}\n".encode())
        self.facts.append(Fact(at, who, what, self._action.get()))

    def keep(self, what: object) -> None:
        """Something that can be answered later, and is not hashed: what it is made of is."""
        self.facts.append(Fact(self._loop.time(), "", what))

    def seal(self, content: bytes) -> None:
        """Something that must be the same in both runs, and that nobody needs to be answered."""
        self._hash.update(content)

    @contextlib.contextmanager
    def during(self, action: Action) -> Iterator[None]:
        """What is added meanwhile, in this task, is part of that action."""
        token = self._action.set(action)
        try:
            yield
        finally:
            self._action.reset(token)

    @property
    def digest(self) -> str:
        """The hash of all that was said and stored, and of how many callbacks it took: every step counts."""
        whole = self._hash.copy()
        whole.update(str(self._loop.callbacks_run).encode())
        return whole.hexdigest()[:16]
