"""Errors of leader election.

ElectionError
├── NotLeading        a write was about to be sent that only a leader may send
├── LeadershipLost    the lease is lost, and by the rules the process ends too
└── TermOverrun       work did not end when its term did: the process must, at once
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ElectionError", "LeadershipLost", "NotLeading", "TermOverrun"]


class ElectionError(Exception):
    """Anything about leading that a caller may want to handle."""


class NotLeading(ElectionError):
    """The lease cannot be relied on any more; nothing was sent."""


class LeadershipLost(ElectionError):
    """The term ended without a request, and by the rules the process ends too."""


class TermOverrun(ElectionError):
    """Work went on when its term was over. Running on could mean two leaders: the process has to end."""

    def __init__(self, lock: str, running: Sequence[str], why: str) -> None:
        self.lock = lock
        self.running = tuple(running)
        self.why = why
        super().__init__(f"{why}; still running under {lock}: {', '.join(running) or 'unknown'}")
