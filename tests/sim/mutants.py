"""Mistakes that the simulation must find: each one breaks the product in one place.

A mutant names the rules by which it may be found, and a seed that found it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.api import wire
from fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from fairlead.api.reserved import FINALIZER_CLAIMED
from fairlead.apiserver.storage import interface, store
from fairlead.claimant import execution, writing
from fairlead.cloud import ownership
from fairlead.drivers.sdk import service
from fairlead.election import candidate, leadership, lease
from fairlead.lifecycle import claiming, deadlines, decisions, deletion, invariants
from fairlead.sim.cast import drivers

Apply = Callable[[pytest.MonkeyPatch], None]


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    rules: frozenset[str]
    apply: Apply
    seed: int = 1  # where the search begins


MUTANTS: list[Mutant] = []


def mutant(*rules: str, seed: int = 1) -> Callable[[Apply], Apply]:
    def enter(apply: Apply) -> Apply:
        MUTANTS.append(Mutant(apply.__name__, frozenset(rules), apply, seed))
        return apply

    return enter


# ---- invariants 1 to 3


@mutant("1", "no crash")
def claims_beside_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "blocker", lambda *_args, **_options: None)


@mutant("1", "7", "no crash")
def takes_a_node_from_its_holder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.Candidacy, "_free_from", lambda _self, _record, now: now)


@mutant("2", "liveness")
def changes_its_mind_after_the_end(patch: pytest.MonkeyPatch) -> None:
    finished = decisions._finished

    def changed(event: Any, facts: Any, now: dt.datetime) -> Any:
        if event.claim_status is ClaimStatus.SUCCEEDED:
            return decisions.Finish(wire.replace(event.status, claim_status=ClaimStatus.FAILED))
        return finished(event, facts, now)

    patch.setattr(decisions, "_finished", changed)
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


@mutant("3", "liveness")
def lets_go_before_the_end_is_stored(patch: pytest.MonkeyPatch) -> None:
    write = writing.Writer.write_status
    patch.setattr(invariants, "check_may_release", lambda _event: None)

    async def written(self: Any, event: Any, status: Any) -> None:
        if status.claim_status in {ClaimStatus.SUCCEEDED, ClaimStatus.FAILED, ClaimStatus.SLA_EXPIRED} and (
            FINALIZER_CLAIMED in event.metadata.finalizers
        ):
            await self.remove_finalizer(event)
            return
        await write(self, event, status)

    patch.setattr(writing.Writer, "write_status", written)


@mutant("3")
def starts_before_the_finalizer(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def hasty(event: Any, facts: Any, now: dt.datetime) -> Any:
        decided = claimed(event, facts, now)
        if isinstance(decided, decisions.AddFinalizer):
            return decisions._carry_out(event, event.status.transition, facts.node, facts, now)
        return decided

    patch.setattr(decisions, "_claimed", hasty)
    patch.setattr(invariants, "check_may_start", lambda *_args: None)


# ---- invariants 4 and 5


@mutant("4")
def never_looks_at_the_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deadlines, "expired", lambda *_args: False)
    patch.setattr(execution, "_seconds_until", lambda *_args: None)
    # A driver that never answers, and knows no deadline of its own: only the claimant can end that.
    patch.setattr(service.Service, "_until", lambda *_args: contextlib.nullcontext())

    async def for_ever(*_args: object) -> None:
        await asyncio.Event().wait()

    patch.setattr(drivers.Worker, "end", for_ever)


@mutant("5")
def freezes_the_deadline_anew(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def generous(event: Any, facts: Any, now: dt.datetime) -> Any:
        decided = claimed(event, facts, now)
        if isinstance(decided, decisions.RecordStart) and event.status.sla is not None:
            later = event.status.sla + dt.timedelta(minutes=1)
            return decisions.RecordStart(wire.replace(decided.status, sla=later))
        return decided

    patch.setattr(decisions, "_claimed", generous)
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


# ---- invariant 7


@mutant("7")
def releases_before_controllers_stop(patch: pytest.MonkeyPatch) -> None:
    async def at_once(*_args: object) -> bool:
        return True

    patch.setattr(leadership.Leadership, "_wound_down", at_once)


@mutant("7")
def works_on_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    async def dawdle(self: Any, *_args: object) -> None:
        await self.candidate.clock.sleep(60.0)

    patch.setattr(leadership.Leadership, "_abandon", dawdle)


@mutant("7", "1")
def believes_in_its_lease_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidate.Candidate, "is_valid", property(lambda _self: True))
    patch.setattr(lease.Candidacy, "valid_until", property(lambda _self: float("inf")))


# ---- invariant 8


@mutant("8")
def owns_by_prefix(patch: pytest.MonkeyPatch) -> None:
    def belongs(platform: str, platforms: Any) -> ownership.Ownership:
        owned = any(platform.startswith(one) for one in platforms)
        return ownership.Ownership.OWNED if owned else ownership.Ownership.FOREIGN

    patch.setattr(ownership, "_belongs", belongs)


@mutant("8")
def owns_what_does_not_say(patch: pytest.MonkeyPatch) -> None:
    asked = ownership.ownership

    def ownership_of(node: Any, platforms: Any) -> ownership.Ownership:
        answer = asked(node, platforms)
        return ownership.Ownership.OWNED if answer is ownership.Ownership.UNKNOWN else answer

    for name, module in list(sys.modules.items()):
        if name.startswith("fairlead.cloud.") and getattr(module, "ownership", None) is asked:
            patch.setattr(module, "ownership", ownership_of)


# ---- invariant 9


@mutant("9")
def extends_the_grace(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def generous(state: Any, requested: int | None, now: dt.datetime) -> Any:
        if state.finalizers and state.deletion_timestamp is not None and requested:
            return deletion.Mark(deletion._deadline(now, requested), requested)
        return decide(state, requested, now)

    patch.setattr(deletion, "decide_custom", generous)


@mutant("9")
def forced_deletion_moves_the_deadline_to_now(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def careless(state: Any, requested: int | None, now: dt.datetime) -> Any:
        if state.finalizers and state.deletion_timestamp is not None and requested == 0:
            return deletion.Mark(deletion._deadline(now, 0), 0)
        return decide(state, requested, now)

    patch.setattr(deletion, "decide_custom", careless)


# ---- promises beside the invariants


@mutant("acknowledged")
def says_stored_before_it_is(patch: pytest.MonkeyPatch) -> None:
    async def hasty(self: Any, table: Any, change: Any) -> Any:
        value = None if change.after is None else change.after.value
        row = interface.Row(change.revision, table.name, change.last.key, value)
        done = asyncio.get_running_loop().create_future()
        pending = store._Pending(table, change, row, done)
        self._in_flight[table.name, change.last.key] = pending
        self._queue.append(pending)
        self._wake.set()
        return change.last

    patch.setattr(store.Store, "_enqueue", hasty)
