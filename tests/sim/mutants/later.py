"""Mutants of order, progress, deadlines, dead drivers, transitions and maintenance."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.claimant import driver_calls, transition_publisher
from kube_fairlead.election import term
from kube_fairlead.lifecycle import claims, decisions, offers, steps
from kube_fairlead.lifecycle.drain import rollout
from kube_fairlead_apiserver.schema import validation_rules
from tests.sim.mutants.registry import mutant

# ---- order, progress and deadlines


@mutant("claim order", seed=2)
def orders_the_events_of_one_second_by_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "sequence", lambda _event: 0)


@mutant("driver work")
def forgets_the_last_progress(patch: pytest.MonkeyPatch) -> None:
    finish = decisions._finish

    def forgetful(event: Any, *args: Any) -> Any:
        made = finish(event, *args)
        return steps.Finish(wire.replace(made.status, progress=event.status.progress))

    patch.setattr(decisions, "_finish", forgetful)


@mutant("liveness")
def keeps_a_pending_event_that_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """A deleted pending event waits for a claimant to remove its finalizer, and there is none."""
    pending = decisions._pending

    def waiting(event: Any, facts: Any, now: dt.datetime) -> Any:
        return steps.Nothing("it is being deleted") if event.deleting else pending(event, facts, now)

    patch.setattr(decisions, "_pending", waiting)


@mutant("5")
def lets_users_rewrite_a_deadline(patch: pytest.MonkeyPatch) -> None:
    """The server does not evaluate validation rules."""
    patch.setattr(validation_rules.RuleTree, "validate", lambda *_args, **_options: [])


# ---- leaders


@mutant("7", seed=8)
def pauses_without_a_look_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    async def pause(self: Any, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self.stopping.wait()
        return not self.stopping.is_set()

    patch.setattr(term.Term, "pause", pause)


# ---- maintenance


@mutant("maintenance", seed=2)
def counts_no_node_that_is_out_of_service_anyway(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollout, "is_unavailable", lambda _node: False)


@mutant("maintenance", seed=2)
def counts_cordoned_nodes_of_no_zone(patch: pytest.MonkeyPatch) -> None:
    startable = rollout.startable

    def anywhere(waiting: Any, active: Any, zones: Any, limits: Any, *, unavailable: Any = ()) -> Any:
        apart = {**zones, **{name: name for name in unavailable if name not in active}}
        return startable(waiting, active, apart, limits, unavailable=unavailable)

    patch.setattr(rollout, "startable", anywhere)


@mutant("maintenance")
def puts_nodes_back_that_are_not_ready(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollout.Readiness, "fit_at", lambda _self, _min_ready: dt.datetime.min.replace(tzinfo=dt.UTC))


# ---- drivers that die


@mutant("drivers", seed=3016)
def claims_for_a_socket_that_was_left_behind(patch: pytest.MonkeyPatch) -> None:
    """The agent does not probe the driver before a claim."""
    patch.setattr(driver_calls.DriverCalls, "unasked", lambda _self: frozenset())


@mutant("drivers", seed=11)
def waits_for_a_lost_driver_for_ever(patch: pytest.MonkeyPatch) -> None:
    lost = decisions._out_of_reach

    def patient(event: Any, *others: Any) -> Any:
        decided = lost(event, *others)
        is_given_up = isinstance(decided, steps.Finish) and event.status.sla is None
        return steps.Nothing("it may come back") if is_given_up else decided

    patch.setattr(decisions, "_out_of_reach", patient)


# ---- transitions that agents publish


@mutant("offers", seed=4)
def publishes_a_transition_once(patch: pytest.MonkeyPatch) -> None:
    """A deleted transition is not published again before the driver registers."""

    async def nothing(_self: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(transition_publisher.TransitionPublisher, "run", nothing)


@mutant("offers")
def keeps_what_no_driver_offers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offers, "collectable_at", lambda *_args: None)


@mutant("offers", seed=2)
def replaces_what_a_user_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offers, "_publisher", lambda transition: transition.spec.driver)


@mutant("offers", "liveness")
def replaces_a_transition_under_its_events(patch: pytest.MonkeyPatch) -> None:
    publish = offers.publish

    def hasty(existing: Any, spec: Any, driver: Any, _users: Any, *times: Any) -> Any:
        return publish(existing, spec, driver, [], *times)

    patch.setattr(offers, "publish", hasty)


@mutant("offers")
def never_replaces_what_a_driver_offered_before(patch: pytest.MonkeyPatch) -> None:
    publish = offers.publish

    def stubborn(*args: Any) -> Any:
        decided = publish(*args)
        return offers.Refuse("it says something else") if isinstance(decided, offers.Replace) else decided

    patch.setattr(offers, "publish", stubborn)
