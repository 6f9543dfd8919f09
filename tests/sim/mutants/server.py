"""Mutants of leaders, clouds and the server: invariants 7, 8 and 9, and the other rules."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from typing import Any

import pytest

from kube_fairlead.cloud import ownership
from kube_fairlead.election import StopReason, candidate, leadership, lease
from kube_fairlead.lifecycle import deletion
from kube_fairlead_apiserver.operations import update
from kube_fairlead_apiserver.storage import interface, store, table, watchers
from kube_fairlead_apiserver.storage.pending_write import PendingWrite
from tests.sim.mutants.registry import mutant

# ---- invariant 7


@mutant("7")
def releases_before_controllers_stop(patch: pytest.MonkeyPatch) -> None:
    async def at_once(*_args: object) -> bool:
        return True

    patch.setattr(leadership.Leadership, "_wound_down", at_once)


@mutant("7", seed=3)
def works_on_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """A leader that has lost its Lease stops a minute late."""
    first_reason = leadership.Leadership._first_reason

    async def dawdle(self: Any, *args: Any) -> Any:
        reason = await first_reason(self, *args)
        if reason is StopReason.LOST:
            await self.candidate.clock.sleep(60.0)
        return reason

    patch.setattr(leadership.Leadership, "_first_reason", dawdle)


@mutant("7", "1", seed=3)
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
    """Nodes without a platform or providerID count as the cloud's own."""
    asked, by_id = ownership.ownership, ownership.owned_by_id

    def ownership_of(node: Any, platforms: Any) -> ownership.Ownership:
        answer = asked(node, platforms)
        return ownership.Ownership.OWNED if answer is ownership.Ownership.UNKNOWN else answer

    def owned(node: Any, platforms: Any) -> bool:
        return ownership_of(node, platforms) is ownership.Ownership.OWNED

    for name, module in list(sys.modules.items()):
        if name.startswith("kube_fairlead.cloud.") and getattr(module, "ownership", None) is asked:
            patch.setattr(module, "ownership", ownership_of)
        if name.startswith("kube_fairlead.cloud.") and getattr(module, "owned_by_id", None) is by_id:
            patch.setattr(module, "owned_by_id", owned)


@mutant("8", "no crash")
def owns_every_node(patch: pytest.MonkeyPatch) -> None:
    asked = ownership.ownership
    for name, module in list(sys.modules.items()):
        if name.startswith("kube_fairlead.cloud.") and getattr(module, "ownership", None) is asked:
            patch.setattr(module, "ownership", lambda *_args: ownership.Ownership.OWNED)


# ---- invariant 9


@mutant("9")
def extends_the_grace(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def generous(state: Any, requested: int | None, now: dt.datetime) -> Any:
        if state.finalizers and state.deletion_timestamp is not None and requested:
            return deletion.Mark(deletion._deadline(now, requested), requested)
        return decide(state, requested, now)

    patch.setattr(deletion, "decide_custom", generous)


@mutant("9", seed=6)
def forced_deletion_moves_the_deadline_to_now(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def careless(state: Any, requested: int | None, now: dt.datetime) -> Any:
        if state.finalizers and state.deletion_timestamp is not None and requested == 0:
            return deletion.Mark(deletion._deadline(now, 0), 0)
        return decide(state, requested, now)

    patch.setattr(deletion, "decide_custom", careless)


@mutant("9", "liveness")
def keeps_what_has_no_finalizer_left(patch: pytest.MonkeyPatch) -> None:
    """After the last finalizer is removed the object stays until its deadline."""
    patch.setattr(update, "_is_finished", lambda *_args: False)


@mutant("9")
def forgets_the_deadline(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def forgetful(state: Any, requested: int | None, now: dt.datetime) -> Any:
        anew = deletion.State(state.finalizers, None, None)
        return decide(anew, requested, now)

    patch.setattr(deletion, "decide_custom", forgetful)


# ---- other rules


@mutant("linearizability", "liveness", "1")
def shows_what_was(patch: pytest.MonkeyPatch) -> None:
    """Stale reads: every object as it was before its last change."""
    read, apply = store.Store.read, table.Table.apply
    past: dict[tuple[int, str, str], Any] = {}

    def applied(self: Any, change: Any) -> None:
        past[id(self), self.name, change.last.key] = change.before
        apply(self, change)

    def behind(self: Any, name: str, key: str) -> Any:
        now = read(self, name, key)
        before = past.get((id(self.table(name)), name, key))
        return before if now is not None and before is not None and now.revision % 16 == 0 else now

    patch.setattr(table.Table, "apply", applied)
    patch.setattr(store.Store, "read", behind)


@mutant("linearizability", "liveness")
def leaves_out_an_event(patch: pytest.MonkeyPatch) -> None:
    offer = watchers.Watcher.offer

    def forgetful(self: Any, notice: Any, size: int) -> None:
        if notice[2] is None or notice[2].revision % 50:
            offer(self, notice, size)

    patch.setattr(watchers.Watcher, "offer", forgetful)


@mutant("linearizability", "liveness")
def tells_out_of_order(patch: pytest.MonkeyPatch) -> None:
    take = watchers.Watcher.take_nowait
    patch.setattr(watchers.Watcher, "take_nowait", lambda self: take(self)[::-1])


@mutant("durability", "linearizability", seed=4)
def gives_a_number_that_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A write that a full disk rejects is acknowledged."""

    def generous(self: Any, _error: BaseException, _kept: Any = ()) -> None:
        for pending in self._writing + self._queue:
            if not pending.done.done():
                pending.done.set_result(pending.change.last)
            pending.settle()
        self._writing, self._queue = [], []
        self._in_flight.clear()

    patch.setattr(store.Store, "_refuse", generous)


@mutant("durability")
def says_stored_before_it_is(patch: pytest.MonkeyPatch) -> None:
    async def hasty(self: Any, table: Any, change: Any, *, freeing: bool) -> Any:
        value = None if change.after is None else change.after.value
        row = interface.Row(change.revision, table.name, change.last.key, value)
        done = asyncio.get_running_loop().create_future()
        pending = PendingWrite(table, change, row, done, freeing)
        self._in_flight[table.name, change.last.key] = pending
        self._queue.append(pending)
        self._wake.set()
        return change.last

    patch.setattr(store.Store, "_enqueue", hasty)
