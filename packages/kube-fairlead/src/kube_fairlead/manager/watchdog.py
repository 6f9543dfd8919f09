"""The leader's watchdog: a thread that ends the process when the event loop is blocked.

Everything that makes a leader stop runs on the event loop. If something blocks it, nothing there can notice that the
lease has run out; a thread can. It only ever acts long after the loop should have.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from kube_fairlead.base.clock import Clock
from kube_fairlead.election import Leadership, TermOverrun

__all__ = ["watched"]

_INTERVAL_SECONDS = 0.2
# A process that was asleep gets this many intervals to notice by itself.
_PATIENCE = 3


@contextlib.contextmanager
def watched(
    leaderships: Sequence[Leadership], *, clock: Clock, on_overrun: Callable[[TermOverrun], object]
) -> Iterator[None]:
    """Watch over terms as long as the block lasts."""
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(leaderships, clock, on_overrun, over), name="leader-watchdog", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(
    leaderships: Sequence[Leadership], clock: Clock, on_overrun: Callable[[TermOverrun], object], over: threading.Event
) -> None:
    late: dict[int, int] = {}
    while not over.wait(_INTERVAL_SECONDS):
        for number, leadership in enumerate(leaderships):
            late[number] = late.get(number, 0) + 1 if _is_late(leadership, clock) else 0
            if late[number] >= _PATIENCE:
                lock = str(leadership.candidate.lock)
                on_overrun(TermOverrun(lock, ["the event loop"], "the lease ran out and nothing reacted"))


def _is_late(leadership: Leadership, clock: Clock) -> bool:
    # Both are read once: the event loop changes them meanwhile.
    term, candidacy = leadership.term, leadership.candidate.candidacy
    if term is None or term.is_tidying or not candidacy.leads:
        return False  # no work of the lock runs here any more, and its Lease may be released already
    return clock.monotonic() > candidacy.exit_by
