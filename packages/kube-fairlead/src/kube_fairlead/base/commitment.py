"""Work that may be cancelled until it has begun to change something.

A request whose client hangs up is cancelled, unless it has written: its writes belong together, so it is carried to
its end. What runs the work calls `undertake`, what makes changes calls `commit` just before the first one, and neither
knows of the other.
"""

from __future__ import annotations

import contextvars

__all__ = ["Commitment", "commit", "undertake"]


class Commitment:
    """Whether a piece of work has begun to change something."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


_present: contextvars.ContextVar[Commitment | None] = contextvars.ContextVar("commitment", default=None)


def undertake() -> Commitment:
    """Begin a piece of work in this task. The tasks that it starts belong to it."""
    made = Commitment()
    _present.set(made)
    return made


def commit() -> None:
    """From here on the present piece of work, if there is one, must not be cut off."""
    present = _present.get()
    if present is not None:
        present.begun = True
