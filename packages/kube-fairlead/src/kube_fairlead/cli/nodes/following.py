"""Following an event to its end, across broken connections, and even when it is deleted the moment it has finished."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import time as api_time
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NAMESPACE_NODE_LEASE
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import follow as follow_client
from kube_fairlead.client.client import Client
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.lifecycle import conditions, stalling

__all__ = [
    "Last",
    "Outcome",
    "claimant_sign",
    "claimant_silence",
    "describe",
    "follow",
    "outcome_of",
    "why_pending",
]

_T = TypeVar("_T")

_SETTLED: Final = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How an event ended."""

    succeeded: bool
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Last:
    """The last that was seen of an event. `seen_to_go`: its deletion was seen, so there was nothing after this."""

    event: LifecycleEvent
    seen_to_go: bool = False


async def follow(client: Client, event: LifecycleEvent, on_change: Callable[[LifecycleEvent], None]) -> Last:
    """Tell of every state of an event from this one on, until it has finished or is gone.

    The first watch begins at the very version that is known, so that no state is missed however soon the event ends;
    a list is needed only when the server has forgotten that version.
    """
    events = client.of(LifecycleEvent)
    only = f"metadata.name={event.name}"
    delays = follow_client.RECONNECT.delays(client.randomness)
    last, version = event, event.metadata.resource_version
    on_change(last)
    while not last.finished:
        try:
            if not version:
                page = await events.list(field_selector=only)
                current = next((item for item in page.items if item.uid == event.uid), None)
                if current is None:
                    return Last(last)
                last, version = current, page.resource_version
                on_change(last)
                delays.reset()
                continue
            async with events.follow(resource_version=version, field_selector=only) as changes:
                async for change in changes:
                    if not isinstance(change, Change) or change.object.uid != event.uid:
                        continue
                    last = change.object
                    on_change(last)
                    if last.finished or change.type is ChangeType.DELETED:
                        return Last(last, seen_to_go=change.type is ChangeType.DELETED)
        except api_errors.Expired:
            version = ""
        except (client_errors.ClientError, api_errors.ApiError) as error:
            if not follow_client.is_transient(error):
                raise
            version = ""
        await client.clock.sleep(next(delays))
    return Last(last)


async def outcome_of(client: Client, last: Last, transition: LifecycleTransition) -> Outcome:
    """How an event ended of which this is the last that was seen."""
    event = last.event
    if event.finished:
        return Outcome(event.claim_status is ClaimStatus.SUCCEEDED, event.status.message)
    if last.seen_to_go:
        when = "before it was claimed" if event.claim_status is ClaimStatus.PENDING else "while it was carried out"
        return Outcome(succeeded=False, message=f"event {event.name} was deleted {when}")
    # It went while nobody watched. The Node keeps the state that was reached last, by whichever event: only one that
    # was reached without fault since this event was made can be this event's work.
    node = await client.of(Node).get(event.spec.binding_node)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    if condition is None:
        return Outcome(succeeded=False, message=f"event {event.name} is gone, and the node says nothing")
    (wanted, *_) = conditions.after_state(event.spec.transition_name, transition.spec.end, well_known=False)
    made, since = event.metadata.creation_timestamp, condition.last_transition_time
    if wanted.is_met_by(condition) and made is not None and since is not None and since >= made:
        return Outcome(succeeded=True)
    told = f"{condition.reason}{f' since {api_time.format_time(since)}' if since else ''}: {condition.message}"
    return Outcome(succeeded=False, message=f"event {event.name} is gone, and the node says {told}")


def describe(event: LifecycleEvent) -> str:
    """Where an event stands, in one line."""
    status = event.status
    if event.claim_status is ClaimStatus.PENDING:
        return status.message or "waits for the agent of the node"
    progress = status.progress
    counted = (
        f"{progress.done}/{progress.total} {progress.unit} gone" if progress is not None and progress.total else ""
    )
    return "; ".join(part for part in (counted, status.message) if part) or "claimed"


async def why_pending(client: Client, event: LifecycleEvent) -> str:
    """Why nobody has claimed an event, as far as can be seen from outside.

    Raises:
        ApiError, ClientError: it cannot be seen now.
    """
    now = client.clock.now()
    node = await _found(client.of(Node).get(event.spec.binding_node))
    ready = None if node is None else node.condition("Ready")
    if ready is not None and ready.status != "True" and now - (ready.last_transition_time or now) >= _SETTLED:
        since = f" since {api_time.format_time(ready.last_transition_time)}" if ready.last_transition_time else ""
        return (
            f"the node is not ready{since} ({ready.reason or 'Ready=' + ready.status}), so its agent cannot act;"
            " `fairlead install --claimer` installs somebody who acts for nodes that are out of reach"
        )
    bound = await client.of(LifecycleEvent).list_all(field_selector=f"spec.bindingNode={event.spec.binding_node}")
    others = tuple(other for other in bound.items if other.uid != event.uid)
    current = next((item for item in bound.items if item.uid == event.uid), event)
    around = stalling.Surroundings(
        node=node,
        transition=await _found(client.of(LifecycleTransition).get(event.spec.transition_name)),
        lease=await _lease(client, event),
        others=others,
    )
    why = stalling.reason(current, stalling.Stage.PENDING, around, now)
    waits_its_turn = any(other.claim_status is ClaimStatus.CLAIMED for other in others)
    if node is None or waits_its_turn or current.status.first_seen_time is not None:
        return why
    return f"{why}; is `fairlead agent` running on the node?"


async def claimant_silence(client: Client, event: LifecycleEvent) -> str:
    """That no claimant answers for the node of an event, by the node's Lease; empty while one does.

    Raises:
        ApiError, ClientError: it cannot be seen now.
    """
    lease = await _lease(client, event)
    return stalling.silence(event, lease, client.clock.now())


async def claimant_sign(client: Client, event: LifecycleEvent) -> str:
    """The last sign of life of the claimant of an event.

    Raises:
        ApiError, ClientError: it cannot be seen now.
    """
    lease = await _lease(client, event)
    if silence := stalling.silence(event, lease, client.clock.now()):
        return silence
    renewed = None if lease is None else lease.spec.renew_time
    return "" if renewed is None else f"its claimant last renewed its Lease at {api_time.format_time(renewed)}"


async def _lease(client: Client, event: LifecycleEvent) -> Lease | None:
    return await _found(client.of(Lease).get(event.spec.binding_node, namespace=NAMESPACE_NODE_LEASE))


async def _found(asked: Awaitable[_T]) -> _T | None:
    try:
        return await asked
    except api_errors.NotFound:
        return None
