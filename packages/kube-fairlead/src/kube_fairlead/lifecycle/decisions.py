"""What a claimant does next about one event: the central decision of the lifecycle.

`decide` is pure, and is called again after every step. What was done is read from the event and its node, never from
memory, so a restarted process finds the missing step by itself. The steps of a claimed event, in order:

    AskDriver -> Claim -> AddFinalizer -> AnnotateNode -> StartDriver -> Publish(start) -> RecordStart -> EndDriver
    -> Publish(end) -> Finish -> AnnotateNode -> WriteRecord -> RemoveFinalizer -> Delete

Claim and finalizer come before the first call of the driver, and the terminal status before the finalizer is removed
(invariant 3). The start state is published before `startTime` is recorded, and the end state before the terminal
status. So an event without a start time has never been past its start state, and one with it never goes back there
(invariant 2).
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, assert_never

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventStatus,
    LifecycleTransition,
)
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.api.wire import replace
from kube_fairlead.lifecycle import (
    autoscaler_annotations,
    claims,
    conditions,
    deadlines,
    driver_options,
    phases,
    records,
    retention,
)
from kube_fairlead.lifecycle.facts import Calling, Ended, Facts, Idle, Refused, Run, Started, Unreachable
from kube_fairlead.lifecycle.steps import (
    AddFinalizer,
    AnnotateNode,
    AskDriver,
    Claim,
    Decision,
    Delete,
    EndDriver,
    Finish,
    MarkSeen,
    NoteDriver,
    Nothing,
    Publish,
    RecordStart,
    RemoveFinalizer,
    StartDriver,
    WaitUntil,
    WriteRecord,
)

__all__ = ["decide"]

_GOING_DOWN: Final = "the node is going down"
# A driver that restarts registers again within moments; a shorter absence is not reported.
_BRIEF: Final = dt.timedelta(seconds=2)


def decide(event: LifecycleEvent, facts: Facts, now: dt.datetime) -> Decision:
    """The next step for an event that is bound to this claimant's node. `facts.events` holds the event too."""
    if not facts.holds_lease:
        return Nothing("another claimant holds the node's lease")
    if claims.belongs_to_another(event, facts.claimant):
        return Nothing(f"{event.status.claimed_by or 'another claimant'} has claimed it")
    match event.claim_status:
        case ClaimStatus.PENDING:
            return _pending(event, facts, now)
        case ClaimStatus.CLAIMED:
            return _claimed(event, facts, now)
        case ClaimStatus.SUCCEEDED | ClaimStatus.FAILED | ClaimStatus.SLA_EXPIRED:
            return _finished(event, facts, now)
        case other:
            assert_never(other)


def _pending(event: LifecycleEvent, facts: Facts, now: dt.datetime) -> Decision:
    if event.deleting:
        # No claim can be lost with it: the update that removes the finalizer fails if another claimant claims it now.
        is_held = FINALIZER_CLAIMED in event.metadata.finalizers
        return RemoveFinalizer() if is_held else Nothing("it is being deleted")
    node, transition = facts.node, facts.transitions.get(event.spec.transition_name)
    if interruption := facts.interruption_of(event):
        return Nothing(interruption)
    if node is None:
        return Nothing(f"there is no node {event.spec.binding_node}")
    if until := conditions.held_until(node, None if transition is None else transition.spec, now):
        status = _waiting(event, _GOING_DOWN)
        return WaitUntil(until, _GOING_DOWN) if status is None else MarkSeen(status)
    reason, hopeless = _unready(event, facts, node)
    if reason and facts.settings.leave_to_others:
        return Nothing(reason)
    if hopeless:
        return _finish(event, ClaimStatus.FAILED, reason, facts, now)
    if reason or transition is None:
        return _wait_for_driver(event, facts, reason, now)
    is_ready = {
        other.name: _is_ready(other, facts, node) for other in facts.events if other.claim_status is ClaimStatus.PENDING
    }
    first = claims.preceding_event(event, facts.events, claimant=facts.claimant, is_ready=is_ready)
    if first is not None:
        # The first one changes often, so its name is not written into all events that wait.
        status = _waiting(event, "another event of the node goes first")
        return Nothing(f"event {first.name} goes first") if status is None else MarkSeen(status, for_its_turn=True)
    if facts.is_calling_for_another(event):
        return Nothing("the driver of another event still works")
    offer = (transition.spec.driver, transition.spec.start, transition.spec.end)
    if offer in facts.asked:
        return Nothing(f"driver {transition.spec.driver} has not answered yet")
    if offer in facts.unasked:
        return AskDriver(offer)
    return _claim(event, facts, node, transition, now)


def _is_ready(event: LifecycleEvent, facts: Facts, node: Node) -> bool:
    reason, _ = _unready(event, facts, node)
    return not reason and not facts.interruption_of(event) and event.uid not in facts.refused


def _unready(event: LifecycleEvent, facts: Facts, node: Node) -> tuple[str, bool]:
    """As `claims.unready`, with the error of a driver that is registered and does not answer."""
    transition = facts.transitions.get(event.spec.transition_name)
    reason, hopeless = claims.unready(event, transition, node, facts.drivers)
    if reason and not hopeless and transition is not None and transition.spec.driver in facts.unreachable:
        return facts.unreachable[transition.spec.driver].describe(transition.spec.driver), False
    return reason, hopeless


def _waiting(event: LifecycleEvent, reason: str, **changes: Any) -> LifecycleEventStatus | None:
    """A status with the reason for which the event waits; None if it is stored already."""
    message = phases.shortened(f"{phases.WAITING}{reason}")
    sequence = claims.sequence(event)
    status = replace(event.status, claim_status=ClaimStatus.PENDING, message=message, sequence=sequence, **changes)
    return None if status == event.status else status


def _wait_for_driver(event: LifecycleEvent, facts: Facts, reason: str, now: dt.datetime) -> Decision:
    seen = event.status.first_seen_time or deadlines.whole_seconds(now)
    status = _waiting(event, reason, first_seen_time=seen)
    if status is not None:
        return MarkSeen(status)
    ends = deadlines.driver_wait_ends(event, facts.settings.driver_wait, now)
    transition = facts.transitions.get(event.spec.transition_name)
    driver = "" if transition is None else transition.spec.driver
    ends = max(ends, _expected(driver, facts))
    if now >= ends:
        waited = f"{facts.settings.driver_wait.total_seconds():g} s"
        return _finish(event, ClaimStatus.FAILED, f"{reason}; waited {waited} for it", facts, now)
    return WaitUntil(ends, reason)


def _claim(
    event: LifecycleEvent, facts: Facts, node: Node, transition: LifecycleTransition, now: dt.datetime
) -> Decision:
    spec = transition.spec
    sla = spec.sla_duration
    seen = deadlines.whole_seconds(now)
    return Claim(
        phases.advance(
            event.status,
            ClaimStatus.CLAIMED,
            driver=spec.driver,
            sla=facts.deadline_of(spec.driver) if sla is None else deadlines.deadline_after(now, sla),
            claimed_by=facts.claimant,
            node_uid=node.uid,
            transition=FrozenTransition(uid=transition.uid, start=spec.start, end=spec.end),
            options=driver_options.options_for(spec.driver, event.metadata.annotations),
            first_seen_time=event.status.first_seen_time or seen,
            claim_time=seen,
            message="",
        )
    )


def _claimed(event: LifecycleEvent, facts: Facts, now: dt.datetime) -> Decision:
    status, node, run = event.status, facts.node, facts.run_of(event)
    frozen = status.transition
    if frozen is None or not status.driver:
        return _finish(event, ClaimStatus.FAILED, "the claim does not say what was claimed", facts, now)
    if interruption := facts.interruption_of(event):
        return _finish(event, ClaimStatus.FAILED, interruption, facts, now)
    if node is None or node.uid != status.node_uid:
        gone = f"node {event.spec.binding_node} is no longer the one of the claim (uid {status.node_uid})"
        return _finish(event, ClaimStatus.FAILED, gone, facts, now)
    # An answer in time counts, even if the API server was unreachable until after the deadline.
    deadline = _deadline(event, frozen, facts)
    if isinstance(run, Refused) and not deadlines.is_past(deadline, run.at):
        return _finish(event, ClaimStatus.FAILED, run.message, facts, now)
    in_time = isinstance(run, Ended) and not deadlines.is_past(deadline, run.at)
    if deadlines.is_past(deadline, now) and not in_time:
        return _finish(event, ClaimStatus.SLA_EXPIRED, _overdue(event, run), facts, now)
    if FINALIZER_CLAIMED not in event.metadata.finalizers:
        if not event.deleting:
            return AddFinalizer()
        if status.start_time is None and isinstance(run, Idle):
            return _finish(event, ClaimStatus.FAILED, "it was deleted before its driver was started", facts, now)
    if facts.holds_autoscalers(event) and (changes := autoscaler_annotations.hold(node.metadata.annotations)):
        return AnnotateNode(changes)
    return _carry_out(event, frozen, node, facts, now)


def _deadline(event: LifecycleEvent, frozen: FrozenTransition, facts: Facts) -> dt.datetime | None:
    """When the claimant ends the event; None: never.

    A driver that survives a reboot is asked first, however late the machine boots. It has the time that every driver
    has to register.
    """
    deadline, driver = facts.deadline_for_driver(event), event.status.driver
    if deadline is not None or event.status.sla is None or _has_driver(driver, frozen, facts):
        return deadline
    is_answered = isinstance(facts.run_of(event), Ended | Refused)
    return None if is_answered else max(event.status.sla, _expected(driver, facts))


def _has_driver(driver: str, frozen: FrozenTransition, facts: Facts) -> bool:
    return (frozen.start, frozen.end) in facts.drivers.get(driver, frozenset())


def _carry_out(event: LifecycleEvent, frozen: FrozenTransition, node: Node, facts: Facts, now: dt.datetime) -> Decision:
    status, run, deadline = event.status, facts.run_of(event), _deadline(event, frozen, facts)
    if going_down := conditions.held_until(node, frozen, now):
        # A deadline that the driver has met may have passed: then there is no need to wait for it.
        return WaitUntil(min(one for one in (going_down, deadline) if one is not None and now < one), _GOING_DOWN)
    has_driver = _has_driver(status.driver, frozen, facts)
    if isinstance(run, Idle) and not has_driver:
        return _missing(event, deadline, facts, now)
    is_lost = status.start_time is not None and conditions.is_lost(frozen, node)
    if is_lost and (missing := _outstanding(event, frozen.start, node, facts)):
        return Publish(missing)
    match run:
        case Calling(unreachable) if unreachable is not None:
            return _out_of_reach(event, unreachable, deadline, facts, now)
        case Calling() if status.driver_unreachable_time is not None:
            return NoteDriver(replace(status, driver_unreachable_time=None, message=""))
        case Calling():
            return _wait(deadline, "the driver works")
        case Refused():
            return _wait(deadline, "the driver has failed")  # decided before; kept for the type checker
        case Idle():
            return StartDriver() if status.start_time is None else EndDriver()
        case Started(at):
            if status.start_time is not None:
                return EndDriver() if has_driver else _missing(event, deadline, facts, now)
            if missing := _outstanding(event, frozen.start, node, facts):
                return Publish(missing)
            return RecordStart(replace(status, start_time=deadlines.whole_seconds(at)))
        case Ended(_, message):
            if missing := _outstanding(event, frozen.end, node, facts):
                return Publish(missing)
            return _finish(event, ClaimStatus.SUCCEEDED, message, facts, now)
        case other:
            assert_never(other)


def _missing(event: LifecycleEvent, deadline: dt.datetime | None, facts: Facts, now: dt.datetime) -> Decision:
    """No registered driver can be called for a claimed event."""
    driver = event.status.driver
    expected = _expected(driver, facts)
    if now < expected:
        return _wait(deadline, f"driver {driver} may still register", expected)
    error = f"it is not registered on node {event.spec.binding_node}"
    return _out_of_reach(event, facts.unreachable.get(driver) or Unreachable(now, error), deadline, facts, now)


def _out_of_reach(
    event: LifecycleEvent, unreachable: Unreachable, deadline: dt.datetime | None, facts: Facts, now: dt.datetime
) -> Decision:
    """Report it in the event. Without a deadline, fail the event after a bounded time: it would block its node."""
    status = event.status
    # The stored time counts: a restarted claimant does not wait from the beginning.
    since = deadlines.whole_seconds(status.driver_unreachable_time or unreachable.since)
    if (
        status.driver_unreachable_time is None
        and now < unreachable.since + _BRIEF
        and isinstance(facts.run_of(event), Calling)
    ):
        return _wait(deadline, "the driver may be back in a moment", unreachable.since + _BRIEF)
    text = Unreachable(since, unreachable.error).describe(status.driver) if unreachable.error else status.message
    message = phases.shortened(text)
    noted = replace(status, driver_unreachable_time=since, message=message)
    if noted != status:
        return NoteDriver(noted)
    if deadline is not None:
        return WaitUntil(deadline, message)
    limit = facts.settings.driver_lost
    # A driver that restarts repeatedly gets no more time each time. After a start of the claimant, drivers have time to
    # register.
    ends = max(deadlines.deadline_after(since, limit), facts.drivers_known_at)
    if now >= ends:
        return _finish(event, ClaimStatus.FAILED, f"{message}; waited {limit.total_seconds():g} s for it", facts, now)
    return WaitUntil(ends, message)


def _expected(driver: str, facts: Facts) -> dt.datetime:
    """Until when a missing driver may still register, or register again."""
    return max(facts.drivers_known_at, facts.returning.get(driver, facts.drivers_known_at))


def _finished(event: LifecycleEvent, facts: Facts, now: dt.datetime) -> Decision:
    status, node = event.status, facts.node
    if FINALIZER_CLAIMED in event.metadata.finalizers:
        same_node = node is not None and node.uid == status.node_uid
        publishes = event.claim_status is not ClaimStatus.SUCCEEDED and not facts.driver_writes_conditions(event)
        if node is not None and same_node and publishes:
            wanted = conditions.after_failure(event, node, well_known=facts.settings.well_known_conditions)
            if missing := conditions.outstanding(wanted, node):
                return Publish(missing)
        if node is not None and same_node and (changes := autoscaler_annotations.release(node.metadata.annotations)):
            return AnnotateNode(changes)
    if event.uid not in facts.recorded:
        return WriteRecord(records.entry_of(event))
    if FINALIZER_CLAIMED in event.metadata.finalizers:
        return RemoveFinalizer()
    if event.deleting:
        return Nothing("it is being deleted")
    moment = retention.collectable_at(event, facts.settings.keep_finished)
    if moment is not None and now < moment:
        return WaitUntil(moment, "a finished event is kept for a while")
    return Delete()


def _finish(event: LifecycleEvent, target: ClaimStatus, message: str, facts: Facts, now: dt.datetime) -> Finish:
    return Finish(
        phases.advance(
            event.status,
            target,
            completion_time=deadlines.whole_seconds(now),
            message=phases.shortened(message),
            # The driver reports its last progress together with its result.
            progress=facts.progress.get(event.uid, event.status.progress),
            pods=facts.pods.get(event.uid, event.status.pods),
        )
    )


def _outstanding(event: LifecycleEvent, state: str, node: Node, facts: Facts) -> tuple[conditions.Wanted, ...]:
    wanted = conditions.after_state(event.spec.transition_name, state, well_known=facts.settings.well_known_conditions)
    return () if facts.driver_writes_conditions(event) else conditions.outstanding(wanted, node)


def _overdue(event: LifecycleEvent, run: Run) -> str:
    status = event.status
    unreachable = run.unreachable if isinstance(run, Calling) else None
    why = status.message if unreachable is None or not unreachable.error else unreachable.describe(status.driver)
    at = f"deadline {status.sla:%Y-%m-%dT%H:%M:%SZ}" if status.sla is not None else "deadline"
    reached = "the driver had not started" if status.start_time is None else "the driver had not finished"
    return f"{reached} by the {at}: {why}" if why else f"{reached} by the {at}"


def _wait(deadline: dt.datetime | None, why: str, until: dt.datetime | None = None) -> Decision:
    moments = [moment for moment in (until, deadline) if moment is not None]
    return WaitUntil(min(moments), why) if moments else Nothing(why)
