"""Controllers without an election: one term that starts at once and ends when the process stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.election import Lock, StopReason, Term, TermOverrun

__all__ = ["run_unelected"]


async def run_unelected(
    work: Callable[[Term], Awaitable[None]],
    lock: Lock,
    *,
    identity: str,
    clock: Clock,
    shutdown_timeout_seconds: float,
    on_overrun: Callable[[TermOverrun], None],
) -> None:
    """Do the work as a leader would. Cancelling is the request to stop: the work ends in its own time.

    Raises:
        TermOverrun: it did not, and `on_overrun` returned.
        Exception: whatever the work failed with.
    """
    term = Term(lock, identity=identity, number=0, clock=clock, is_reliable=lambda: True, is_elected=False)
    owned = tasks.TaskSet(term.owner, on_failure=lambda _failure: None)
    running = owned.start(_do(work, term), name="work")
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        term.stop(StopReason.EXIT)
        with contextlib.suppress(TimeoutError):
            async with clock.timeout(shutdown_timeout_seconds):
                await asyncio.wait([running])
        if not running.done():
            still = [f"{task.owner}/{task.name}" for task in tasks.live_tasks(term.owner)]
            why = f"work did not end within {shutdown_timeout_seconds:g} s of the request to stop"
            overrun = TermOverrun(str(lock), [*still, *term.stragglers], why)
            on_overrun(overrun)
            raise overrun from None
        running.result()
        raise
    await running


async def _do(work: Callable[[Term], Awaitable[None]], term: Term) -> None:
    await work(term)
