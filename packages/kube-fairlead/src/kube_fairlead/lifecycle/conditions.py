"""What a Node shows about its transition: the proposal's condition, and Kubernetes' well-known ones beside it.

The proposal's condition is always True; the state is its reason. The reason moves from the start to the end state of a
transition, once (invariant 2). If the end is not reached the reason stays, and the message contains what happened.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Final

from kube_fairlead.api.core_v1 import Node, NodeCondition
from kube_fairlead.api.lifecycle_v1alpha1 import FrozenTransition, LifecycleEvent, LifecycleTransitionSpec
from kube_fairlead.api.meta import ConditionStatus
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.lifecycle import deadlines, state_effects

__all__ = [
    "Wanted",
    "after_failure",
    "after_state",
    "going_down_until",
    "held_until",
    "is_lost",
    "outstanding",
    "written",
]

_GOING_DOWN: Final = frozenset({NODE_SHUTDOWN.start, NODE_SHUTDOWN.end})
_GOING_DOWN_LASTS: Final = dt.timedelta(hours=1)  # longer than pods of any sane configuration take to end
_OFF_SOON: Final = dt.timedelta(minutes=2)  # a machine that was released is off by then


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A condition as it should be. The write sets its times."""

    type: str
    status: str
    reason: str
    message: str
    # An event has reached the state: a transition, even if the last event failed and left the node in the same state.
    is_reached: bool = dataclasses.field(default=False, compare=False)

    def is_met_by(self, current: NodeCondition | None) -> bool:
        """Whether the node shows it."""
        return current is not None and self == Wanted(current.type, current.status, current.reason, current.message)


def after_state(transition_name: str, state: str, *, well_known: bool) -> tuple[Wanted, ...]:
    """The conditions of a transition that has reached a state."""
    message = f"Lifecycle Transition '{transition_name}'"
    wanted = [Wanted(CONDITION_LIFECYCLE_TRANSITION, ConditionStatus.TRUE, state, message, is_reached=True)]
    if well_known:
        wanted += _well_known(state_effects.effects_of_state(state), message)
    return tuple(wanted)


def after_failure(event: LifecycleEvent, node: Node, *, well_known: bool) -> tuple[Wanted, ...]:
    """The conditions after an event has ended without reaching its end state.

    A node that was never in any state has no condition for the message; then only the event has it.
    """
    current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    if current is None:
        return ()
    status = event.status
    what = f"Lifecycle Transition '{event.spec.transition_name}' {_described(status.claim_status)}"
    message = f"{what}: {status.message}" if status.message else what
    frozen, wanted = status.transition, []
    # A node that shuts down shows that, and nothing else (invariant 10).
    if current.reason not in _GOING_DOWN or _is_own(current.reason, frozen):
        wanted.append(Wanted(CONDITION_LIFECYCLE_TRANSITION, ConditionStatus.TRUE, current.reason, message))
    # The node may show the start before the event records it: the agent writes them one after the other.
    if well_known and frozen is not None and (status.start_time is not None or current.reason == frozen.start):
        wanted += _well_known(state_effects.effects_of_failure(frozen.start), message)
    return tuple(wanted)


def held_until(
    node: Node, own: FrozenTransition | LifecycleTransitionSpec | None, now: dt.datetime
) -> dt.datetime | None:
    """Until when an event waits because its node shows a shutdown (invariant 10); None: it does not wait.

    An event does not wait for a state of its own transition.
    """
    current, until = node.condition(CONDITION_LIFECYCLE_TRANSITION), going_down_until(node)
    if current is None or until is None or _is_own(current.reason, own):
        return None
    return until if now < until else None


def going_down_until(node: Node) -> dt.datetime | None:
    """Until when the shutdown that a node shows is honoured; None: it shows none.

    Not for ever: a stale condition (the agent was removed, or never started again) must not block the node's other
    events.
    """
    current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    if current is None or current.reason not in _GOING_DOWN or current.last_transition_time is None:
        return None
    return current.last_transition_time + (_GOING_DOWN_LASTS if current.reason == NODE_SHUTDOWN.start else _OFF_SOON)


def is_lost(frozen: FrozenTransition, node: Node) -> bool:
    """Whether the node shows no state of a transition that has started.

    A shutdown replaced it, and was cleared after the boot. The claimant then publishes the start again, because the end
    state follows the start state only.
    """
    current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    return current is None or not _is_own(current.reason, frozen)


def _is_own(reason: str, transition: FrozenTransition | LifecycleTransitionSpec | None) -> bool:
    return transition is not None and reason in {transition.start, transition.end}


def outstanding(wanted: Iterable[Wanted], node: Node) -> tuple[Wanted, ...]:
    """The conditions that the node does not show yet."""
    return tuple(condition for condition in wanted if not condition.is_met_by(node.condition(condition.type)))


def written(wanted: Wanted, current: NodeCondition | None, now: dt.datetime) -> NodeCondition:
    """The condition that replaces the current one. The state is in the reason, so a new reason is a transition too."""
    now = deadlines.whole_seconds(now)
    same = current is not None and (current.status, current.reason) == (wanted.status, wanted.reason)
    is_reached_again = current is not None and wanted.is_reached and current.message != wanted.message
    since = current.last_transition_time if current is not None and same and not is_reached_again else now
    return NodeCondition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
        last_heartbeat_time=now,
        last_transition_time=since,
    )


def _well_known(effects: Iterable[state_effects.Effect], message: str) -> list[Wanted]:
    return [
        Wanted(
            effect.condition, ConditionStatus.TRUE if effect.status else ConditionStatus.FALSE, effect.reason, message
        )
        for effect in effects
    ]


def _described(claim_status: str) -> str:
    return {"Failed": "failed", "SlaExpired": "did not end by its deadline"}.get(claim_status, claim_status)
