"""Mistakes about what was promised later: order, progress, deadlines, drivers that die, transitions, maintenance."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import pytest

from fairlead.api import wire
from fairlead.election import term
from fairlead.lifecycle import claiming, decisions, invariants, steps
from fairlead.lifecycle.drain import rollout
from tests.sim.mutants.registry import mutant

# ---- order, progress and deadlines


@mutant("arrival")
def orders_the_events_of_one_second_by_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "sequence", lambda _event: 0)


@mutant("deeds")
def forgets_the_last_progress(patch: pytest.MonkeyPatch) -> None:
    finish = decisions._finish

    def forgetful(event: Any, *args: Any) -> Any:
        made = finish(event, *args)
        return steps.Finish(wire.replace(made.status, progress=event.status.progress))

    patch.setattr(decisions, "_finish", forgetful)


@mutant("liveness")
def keeps_a_pending_event_that_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """Its finalizer is removed by the claimant that has finished it, and there is none."""
    pending = decisions._pending

    def waiting(event: Any, facts: Any, now: dt.datetime) -> Any:
        return steps.Nothing("it is being deleted") if event.deleting else pending(event, facts, now)

    patch.setattr(decisions, "_pending", waiting)


@mutant("5")
def lets_users_rewrite_a_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


# ---- leaders


@mutant("7")
def pauses_without_a_look_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    async def pause(self: Any, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self.stopping.wait()
        return not self.stopping.is_set()

    patch.setattr(term.Term, "pause", pause)


# ---- maintenance


@mutant("maintenance")
def counts_no_node_that_is_out_of_service_anyway(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollout, "is_unavailable", lambda _node: False)


@mutant("maintenance")
def counts_cordoned_nodes_of_no_zone(patch: pytest.MonkeyPatch) -> None:
    startable = rollout.startable

    def anywhere(waiting: Any, active: Any, zones: Any, limits: Any, *, unavailable: Any = ()) -> Any:
        apart = {**zones, **{name: name for name in unavailable if name not in active}}
        return startable(waiting, active, apart, limits, unavailable=unavailable)

    patch.setattr(rollout, "startable", anywhere)


@mutant("maintenance")
def puts_nodes_back_that_are_not_ready(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollout.Readiness, "fit_at", lambda _self, _min_ready: dt.datetime.min.replace(tzinfo=dt.UTC))
