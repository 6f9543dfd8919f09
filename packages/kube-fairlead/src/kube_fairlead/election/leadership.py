"""Terms: acquire the lease, do the work, end it in order, follow again.

A requested end is gentle: the work is asked to stop, the lease is renewed until the work has returned, then it is
released. A lost lease is not: the work is cancelled at once and must be gone before the lease can have expired for
another candidate. Work that still runs then is named, and the process ends: two loops are worse than none.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, Protocol, TypeVar

from kube_fairlead.base import logs, tasks
from kube_fairlead.election.candidate import Candidate
from kube_fairlead.election.election_record import LeaderElectionRecord
from kube_fairlead.election.errors import LeadershipLost, NotLeading, TermOverrun
from kube_fairlead.election.term import Rules, StopReason, Term

__all__ = ["Leadership", "TermObserver", "end_process"]

_T = TypeVar("_T")

# A process that slept through its lease has no time left; this much it gets to see its own cancellation through.
_LATE_SECONDS = 0.5

_log = logs.get_logger(__name__)


class TermObserver(Protocol):
    """Is notified about terms. Calls are quick and never fail."""

    def term_started(self, term: Term) -> None:
        """The lease is ours; the work has not begun."""
        ...

    def term_ended(self, term: Term) -> None:
        """The work has ended, and the lease was released, lost, or left to expire."""
        ...


def end_process(overrun: TermOverrun) -> NoReturn:
    """Exit with code 1, now. Nothing gentler is safe: whatever did not end might still write."""
    # In the message itself: a program that uses this package alone may print no other part of a log record.
    _log.error(f"the process ends at once: {overrun}")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


class Leadership:
    """Runs the work of one lock in terms.

    Rules (invariant 7):
    1. Work runs only between winning the lease and its release or loss, and never that of two terms at once.
    2. A release comes after the work has ended.
    3. Work that does not end in time ends the process (`on_overrun`).
    """

    def __init__(
        self,
        candidate: Candidate,
        work: Callable[[Term], Awaitable[None]],
        *,
        rules: Rules | None = None,
        observer: TermObserver | None = None,
        on_overrun: Callable[[TermOverrun], None] = end_process,
    ) -> None:
        self.candidate = candidate
        self.term: Term | None = None
        self._work = work
        self._rules = rules or Rules()
        self._observer = observer
        self._on_overrun = on_overrun
        # Failures are looked at where the tasks are waited for.
        self._tasks = tasks.TaskSet(f"term/{candidate.lock}", on_failure=lambda _failure: None)
        self._happened = asyncio.Event()
        self._requested: StopReason | None = None
        self._leaving = False  # the request to end for good may come in any moment of a term, also of one that ends
        self._hurry = False
        self._log = _log.bind(lock=str(candidate.lock), identity=candidate.identity)

    async def run(self) -> None:
        """Lead whenever possible, until the work returns by itself. Cancelling it is the request to stop in order.

        A second cancellation does not wait for work to end by itself: it is cancelled, then the lease released.

        Raises:
            LeadershipLost: a term ended and the rules say not to stay.
            TermOverrun: work did not end, and `on_overrun` returned.
            Exception: whatever the work raised.
        """
        terms = self._tasks.start(self._terms(), name="terms")
        try:
            await asyncio.wait([terms])
        except asyncio.CancelledError:
            self._stop(terms)
            try:
                await asyncio.wait([terms])
            except asyncio.CancelledError:
                self._hurry = True
                self._happened.set()
                await asyncio.wait([terms])
                raise
            if not terms.cancelled():
                terms.result()  # a failure on the way out is the greater news
            raise
        await terms

    def step_down(self, reason: StopReason = StopReason.YIELD) -> bool:
        """End the present term in order and follow again; whether there was one to end."""
        if self.term is None:
            return False
        self._requested = self._requested or reason
        self._happened.set()
        return True

    def _stop(self, terms: asyncio.Task[None]) -> None:
        self._leaving = True
        self._requested = StopReason.EXIT
        self._happened.set()
        if self.term is None:
            terms.cancel()  # a follower has nothing to end

    async def _terms(self) -> None:
        async with self.candidate.following():
            while True:
                record = await self.candidate.win()
                self._requested = None
                term = self.term = self._new_term(record)
                if self._observer is not None:
                    self._observer.term_started(term)
                try:
                    await self._serve(term)
                finally:
                    self.term = None
                    if self._observer is not None:
                        self._observer.term_ended(term)
                if self._leaving or term.stop_reason is StopReason.FINISHED:
                    return
                if not self._rules.stay:
                    raise LeadershipLost(f"{term.identity} leads {term.lock} no longer ({term.stop_reason})")

    def _new_term(self, record: LeaderElectionRecord) -> Term:
        candidate = self.candidate
        return Term(
            candidate.lock,
            identity=candidate.identity,
            number=record.transitions,
            clock=candidate.clock,
            is_reliable=lambda: candidate.is_valid,
        )

    async def _serve(self, term: Term) -> None:
        """One term, from its first task to the release of its lease."""
        work = self._start(self._do_work(term), name="work")
        keeping = self._start(self.candidate.keep(self._asked_to_yield), name="keep")
        term.on_tidying = self._happened.set
        try:
            await self._see_it_through(term, work, keeping)
            await self._see_it_gone(work, self.candidate.clock.monotonic() + self._rules.shutdown_timeout_seconds)
        finally:
            # Both have ended, unless something here failed: then neither may continue unobserved.
            work.cancel()
            keeping.cancel()
        if not work.cancelled() and (failure := work.exception()) is not None and not _is_loss(failure):
            raise failure

    async def _see_it_through(self, term: Term, work: asyncio.Task[None], keeping: asyncio.Task[str]) -> None:
        term.stop(await self._first_reason(work, keeping))
        self._log.info("term ended", reason=str(term.stop_reason))
        self.candidate.asked_to_step_down()
        if term.stop_reason is not StopReason.LOST and await self._wound_down(term, work, keeping):
            await tasks.cancel_and_wait(keeping)
            await self._hand_over(term)
        else:
            term.stop(StopReason.LOST)
            await self._abandon(term, work)
            await tasks.cancel_and_wait(keeping)
            self.candidate.end(hold_off=False)

    def _asked_to_yield(self, preferred: str) -> None:
        self._log.info("the lease names a preferred holder", preferred=preferred)
        self.step_down(StopReason.PREFERRED)

    async def _do_work(self, term: Term) -> None:
        await self._work(term)

    def _start(self, coroutine: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        task = self._tasks.start(coroutine, name=name)
        task.add_done_callback(lambda _task: self._happened.set())
        return task

    async def _first_reason(self, work: asyncio.Task[None], keeping: asyncio.Task[str]) -> StopReason:
        while True:
            if keeping.done():
                self._log.warning("lease lost", why=keeping.result())
                return StopReason.LOST
            if work.done():
                failure = None if work.cancelled() else work.exception()
                if failure is not None and _is_loss(failure):
                    return StopReason.LOST
                return StopReason.FAILED if failure is not None or work.cancelled() else StopReason.FINISHED
            if self._requested is not None:
                return self._requested
            await self._wait_until(None)

    async def _wound_down(self, term: Term, work: asyncio.Task[None], keeping: asyncio.Task[str]) -> bool:
        """Wait until the work has ended by itself, or was made to; False when the lease was lost meanwhile."""
        clock, rules = self.candidate.clock, self._rules
        begun = clock.monotonic()
        give_up_at = begun + rules.shutdown_timeout_seconds
        cancel_at = None if rules.drain_seconds is None else begun + rules.drain_seconds
        while not work.done() and not term.is_tidying:
            now = clock.monotonic()
            if keeping.done():
                return False
            if now >= give_up_at:
                self._overrun(f"work did not end within {rules.shutdown_timeout_seconds:g} s of the request to stop")
            if self._hurry or (cancel_at is not None and now >= cancel_at):
                work.cancel()
                cancel_at, self._hurry = None, False
            await self._wait_until(give_up_at if cancel_at is None else min(cancel_at, give_up_at))
        return True

    async def _abandon(self, term: Term, work: asyncio.Task[None]) -> None:
        """Cancel the work and wait for its end before another candidate can hold the lease."""
        clock = self.candidate.clock
        if not term.is_tidying:
            work.cancel()
        exit_by = max(self.candidate.candidacy.exit_by, clock.monotonic() + _LATE_SECONDS)
        while not work.done() and not term.is_tidying:
            if clock.monotonic() >= exit_by:
                self._overrun("the lease is lost and work still runs")
            await self._wait_until(exit_by)

    async def _see_it_gone(self, work: asyncio.Task[None], moment: float) -> None:
        """Wait until the work has tidied up."""
        while not work.done():
            if self.candidate.clock.monotonic() >= moment:
                self._overrun("work ended and does not come to an end with tidying up")
            await self._wait_until(moment)

    async def _hand_over(self, term: Term) -> None:
        hold_off = term.stop_reason is not StopReason.EXIT
        if self._rules.release:
            await self.candidate.release(hold_off=hold_off)
        else:
            self.candidate.end(hold_off=hold_off)

    def _overrun(self, why: str) -> NoReturn:
        owned = tasks.live_tasks(self._tasks.owner)
        running = [f"{task.owner}/{task.name}" for task in owned if task.name not in {"terms", "keep"}]
        running += self.term.stragglers if self.term is not None else ()
        overrun = TermOverrun(str(self.candidate.lock), running, why)
        self._on_overrun(overrun)
        raise overrun

    async def _wait_until(self, moment: float | None) -> None:
        """Wait until something happens, but not beyond this moment."""
        clock = self.candidate.clock
        with contextlib.suppress(TimeoutError):
            async with clock.timeout(None if moment is None else max(0.0, moment - clock.monotonic())):
                await self._happened.wait()
        self._happened.clear()


def _is_loss(failure: BaseException) -> bool:
    """Whether work ended because it noticed, perhaps first, that the lease is lost."""
    if isinstance(failure, BaseExceptionGroup):
        return failure.split(NotLeading)[1] is None
    return isinstance(failure, NotLeading)
