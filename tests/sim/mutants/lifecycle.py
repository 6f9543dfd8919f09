"""Mutants of events and claims: invariants 1 to 5."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.claimant import driver_calls, engine, event_writer
from kube_fairlead.client.verbs import Api
from kube_fairlead.drivers.sdk import service
from kube_fairlead.election import lease
from kube_fairlead.lifecycle import claims, conditions, deadlines, decisions, garbage_collection, invariants, steps
from kube_fairlead.lifecycle.facts import Facts
from kube_fairlead_lab.sim.actors import agents, drivers
from tests.sim.mutants.registry import mutant

# ---- invariant 1


@mutant("1", "no crash")
def claims_beside_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "blocker", lambda *_args, **_options: None)
    patch.setattr(Facts, "is_calling_for_another", lambda *_args: False)


@mutant("1", "7", "no crash")
def takes_a_node_from_its_holder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.Candidacy, "_free_from", lambda _self, _record, now, **_options: now)


@mutant("2", "1", "5", "no crash", "liveness")
def writes_over_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    """Claims and statuses are written without a resourceVersion."""
    update = Api.update_status

    async def careless(self: Any, item: Any) -> Any:
        return await update(self, wire.replace_metadata(item, resource_version=""))

    patch.setattr(Api, "update_status", careless)


@mutant("1", "no crash", seed=101)
def claims_a_shutdown_beside_another(patch: pytest.MonkeyPatch) -> None:
    """The claimant does not fail other claims before a shutdown, and does not wait for them."""
    blocker, interruption_of = claims.preceding_event, Facts.interruption_of

    def hasty(event: Any, events: Any, **options: Any) -> Any:
        return None if event.spec.transition_name == NODE_SHUTDOWN.name else blocker(event, events, **options)

    def lenient(self: Facts, event: Any) -> str:
        return "" if event.claim_status is ClaimStatus.CLAIMED else interruption_of(self, event)

    patch.setattr(claims, "blocker", hasty)
    patch.setattr(Facts, "interruption_of", lenient)
    patch.setattr(Facts, "is_calling_for_another", lambda *_args: False)


# ---- invariant 2


@mutant("2", "liveness")
def changes_its_mind_after_the_end(patch: pytest.MonkeyPatch) -> None:
    finished = decisions._finished

    def changed(event: Any, facts: Any, now: dt.datetime) -> Any:
        if event.claim_status is ClaimStatus.SUCCEEDED:
            return steps.Finish(wire.replace(event.status, claim_status=ClaimStatus.FAILED))
        return finished(event, facts, now)

    patch.setattr(decisions, "_finished", changed)
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


@mutant("2", "no crash")
def says_the_end_before_the_start(patch: pytest.MonkeyPatch) -> None:
    outstanding = decisions._outstanding

    def hasty(event: Any, state: str, node: Any, facts: Any) -> Any:
        return outstanding(event, event.status.transition.end, node, facts)

    patch.setattr(decisions, "_outstanding", hasty)
    patch.setattr(invariants, "check_reason", lambda *_args: None)


@mutant("2")
def says_the_start_again_after_the_end(patch: pytest.MonkeyPatch) -> None:
    finished = decisions._finished

    def forgetful(event: Any, facts: Any, now: dt.datetime) -> Any:
        if event.claim_status is ClaimStatus.SUCCEEDED and FINALIZER_CLAIMED in event.metadata.finalizers:
            state = event.status.transition.start
            wanted = conditions.after_state(event.spec.transition_name, state, well_known=False)
            if missing := conditions.outstanding(wanted, facts.node):
                return steps.Publish(missing)
        return finished(event, facts, now)

    patch.setattr(decisions, "_finished", forgetful)
    patch.setattr(invariants, "check_reason", lambda *_args: None)


# ---- invariant 3


@mutant("3", "liveness")
def lets_go_before_the_end_is_stored(patch: pytest.MonkeyPatch) -> None:
    write = event_writer.EventWriter.write_status
    patch.setattr(invariants, "check_may_release", lambda _event: None)

    async def written(self: Any, event: Any, status: Any) -> None:
        if status.claim_status in {ClaimStatus.SUCCEEDED, ClaimStatus.FAILED, ClaimStatus.SLA_EXPIRED} and (
            FINALIZER_CLAIMED in event.metadata.finalizers
        ):
            await self.remove_finalizer(event)
            return
        await write(self, event, status)

    patch.setattr(event_writer.EventWriter, "write_status", written)


@mutant("3")
def starts_before_the_finalizer(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def hasty(event: Any, facts: Any, now: dt.datetime) -> Any:
        decided = claimed(event, facts, now)
        if isinstance(decided, steps.AddFinalizer):
            return decisions._carry_out(event, event.status.transition, facts.node, facts, now)
        return decided

    patch.setattr(decisions, "_claimed", hasty)
    patch.setattr(invariants, "check_may_start", lambda *_args: None)


@mutant("3", "1", "no crash")
def starts_before_the_claim_is_stored(patch: pytest.MonkeyPatch) -> None:
    carry_out = engine.Engine._carry_out
    patch.setattr(invariants, "check_may_start", lambda *_args: None)

    async def hasty(self: Any, event: Any, decision: Any) -> None:
        if isinstance(decision, steps.Claim):
            self._calls.call(wire.replace(event, status=decision.status), "start", deadline=decision.status.sla)
        await carry_out(self, event, decision)

    patch.setattr(engine.Engine, "_carry_out", hasty)


# ---- invariant 4


async def _for_ever(*_args: object) -> None:
    await asyncio.Event().wait()


@mutant("4", "liveness")
def never_looks_at_the_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deadlines, "expired", lambda *_args: False)
    patch.setattr(driver_calls, "_seconds_until", lambda *_args: None)
    # A driver that never answers and has no deadline: only the claimant can end the call.
    patch.setattr(service.Service, "_until", lambda *_args: contextlib.nullcontext())

    patch.setattr(drivers.NodeDriver, "end", _for_ever)


@mutant("4", "liveness")
def never_wakes_for_the_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_wait", lambda _status, why, *_until: steps.Nothing(why))
    # Constantly renewed transitions would wake every agent.
    patch.setattr(agents, "_RENEWAL", dt.timedelta(hours=1))
    patch.setattr(driver_calls, "_seconds_until", lambda *_args: None)
    patch.setattr(service.Service, "_until", lambda *_args: contextlib.nullcontext())
    patch.setattr(drivers.NodeDriver, "end", _for_ever)


@mutant("liveness", "4")
def keeps_the_events_of_nodes_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def patient(event: Any, facts: Any, now: dt.datetime) -> Any:
        if facts.node is None or facts.node.uid != event.status.node_uid:
            return steps.Nothing("it may come back")
        return claimed(event, facts, now)

    patch.setattr(decisions, "_claimed", patient)
    patch.setattr(garbage_collection, "_failed", lambda *_args: steps.Nothing("it may come back"))


# ---- invariant 5


@mutant("5", "liveness")
def freezes_the_deadline_anew(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def generous(event: Any, facts: Any, now: dt.datetime) -> Any:
        decided = claimed(event, facts, now)
        if isinstance(decided, steps.RecordStart) and event.status.sla is not None:
            later = event.status.sla + dt.timedelta(minutes=1)
            return steps.RecordStart(wire.replace(decided.status, sla=later))
        return decided

    patch.setattr(decisions, "_claimed", generous)
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


@mutant("5", "liveness")
def claims_anew_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    claimed = decisions._claimed

    def anew(event: Any, facts: Any, now: dt.datetime) -> Any:
        decided = claimed(event, facts, now)
        later = deadlines.whole_seconds(now)
        if isinstance(decided, steps.EndDriver) and event.status.claim_time != later:
            return steps.Claim(wire.replace(event.status, claim_time=later))
        return decided

    patch.setattr(decisions, "_claimed", anew)
    patch.setattr(invariants, "validate_event_status_update", lambda *_args: [])


@mutant("5", "liveness")
def claims_in_the_name_of_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "node_claimant", lambda name: f"node/{name}x")


# ---- records


@mutant("records")
def releases_an_event_without_its_record(patch: pytest.MonkeyPatch) -> None:
    facts = engine.Engine._facts

    def forgetful(self: engine.Engine) -> Facts:
        known = facts(self)
        return dataclasses.replace(known, recorded=frozenset(event.uid for event in known.events))

    patch.setattr(engine.Engine, "_facts", forgetful)
