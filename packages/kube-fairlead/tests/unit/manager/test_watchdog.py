"""The watchdog, on the real clock: it watches from a thread of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.election import Lock, Term, TermOverrun, Timing
from kube_fairlead.election.lease import Candidacy
from kube_fairlead.manager.watchdog import watched


@dataclasses.dataclass
class Candidate:
    candidacy: Candidacy
    lock: Lock = Lock("ns", "lock")  # noqa: RUF009 - immutable


@dataclasses.dataclass
class Leadership:
    """What the watchdog looks at."""

    candidate: Candidate
    term: Term | None


def leading(clock: VirtualClock) -> Leadership:
    candidacy = dataclasses.replace(Candidacy(identity="a", timing=Timing()), renewed=clock.monotonic())
    term = Term(Lock("ns", "lock"), identity="a", number=1, clock=clock, is_reliable=lambda: True)
    return Leadership(Candidate(candidacy), term)


async def looked_at(leadership: Leadership, clock: VirtualClock, *, barks: bool) -> list[str]:
    """What the watchdog says; where it should keep quiet, after time enough to speak three times over."""
    told: list[str] = []
    spoken = threading.Event()

    def on_overrun(overrun: TermOverrun) -> None:
        told.append(str(overrun))
        spoken.set()

    with watched([leadership], clock=clock, on_overrun=on_overrun):  # type: ignore[list-item]  # all that it looks at
        await asyncio.to_thread(spoken.wait, 60.0 if barks else 2.0)
    return told


async def test_it_ends_a_process_whose_loop_is_stuck() -> None:
    clock = VirtualClock()
    leadership = leading(clock)
    await clock.advance(600)
    assert "the lease ran out" in (await looked_at(leadership, clock, barks=True))[0]


async def test_it_lets_a_term_tidy_up_after_its_release() -> None:
    clock = VirtualClock()
    tidying, released = leading(clock), leading(clock)
    assert tidying.term is not None
    tidying.term.tidy_up()
    released.candidate.candidacy = released.candidate.candidacy.ended(clock.monotonic(), hold_off=False)
    await clock.advance(600)
    assert await looked_at(tidying, clock, barks=False) == []
    assert await looked_at(released, clock, barks=False) == []
