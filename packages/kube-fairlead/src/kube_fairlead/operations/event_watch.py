"""The states of one event until it has ended, across broken connections, and how it ended if it is deleted at once."""

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
from kube_fairlead.client import retry_watch as follow_client
from kube_fairlead.client.client import Client
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.lifecycle import conditions, stalls
from kube_fairlead.operations.progress import Outcome, Result

__all__ = [
    "LastState",
    "claimant_renewal",
    "claimant_silence",
    "describe",
    "follow",
    "outcome_of",
    "why_pending",
]

_T = TypeVar("_T")

_SETTLED: Final = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class LastState:
    """The last state of an event that was read. `deleted`: its deletion was seen, so there is no later state."""

    event: LifecycleEvent
    deleted: bool = False


async def follow(client: Client, event: LifecycleEvent, on_change: Callable[[LifecycleEvent], None]) -> LastState:
    """Call `on_change` with every state of an event from this one on, until it has ended or is deleted.

    The first watch starts at the known resourceVersion, so that no state is missed however soon the event ends. A list
    is needed only when the server has compacted that version.
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
                    return LastState(last)
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
                        return LastState(last, deleted=change.type is ChangeType.DELETED)
        except api_errors.Expired:
            version = ""
        except (client_errors.ClientError, api_errors.ApiError) as error:
            if not follow_client.is_transient(error):
                raise
            version = ""
        await client.clock.sleep(next(delays))
    return LastState(last)


async def outcome_of(client: Client, last: LastState, transition: LifecycleTransition) -> Outcome:
    """How an event ended, from the last state that was read, and from the Node if the end was not seen."""
    event = last.event
    if event.finished:
        succeeded = event.claim_status is ClaimStatus.SUCCEEDED
        return Outcome(Result.SUCCEEDED if succeeded else Result.FAILED, event.status.message)
    if last.deleted:
        when = (
            "before it was claimed"
            if event.claim_status is ClaimStatus.PENDING
            else "while its claimant carried it out"
        )
        return Outcome(Result.FAILED, f"event {event.name} was deleted {when}")
    # It was deleted while no watch was open. The Node has the state that the last event of any transition reached: only
    # a state that was reached without a failure since this event was created can be this event's.
    node = await client.of(Node).get(event.spec.binding_node)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    if condition is None:
        return Outcome(Result.FAILED, f"event {event.name} no longer exists, and the node has no condition of it")
    (wanted, *_) = conditions.after_state(event.spec.transition_name, transition.spec.end, well_known=False)
    created, since = event.metadata.creation_timestamp, condition.last_transition_time
    if wanted.is_met_by(condition) and created is not None and since is not None and since >= created:
        return Outcome(Result.SUCCEEDED)
    state = f"{condition.reason}{f' since {api_time.format_time(since)}' if since else ''}: {condition.message}"
    return Outcome(Result.FAILED, f"event {event.name} no longer exists, and the node's condition is {state}")


def describe(event: LifecycleEvent) -> str:
    """The state of an event in one line."""
    status = event.status
    if event.claim_status is ClaimStatus.PENDING:
        return status.message or "waiting for the node's agent"
    progress = status.progress
    counted = (
        f"{progress.done}/{progress.total} {progress.unit} gone" if progress is not None and progress.total else ""
    )
    return "; ".join(part for part in (counted, status.message) if part) or "claimed"


async def why_pending(client: Client, event: LifecycleEvent) -> str:
    """Why an event is not claimed, as far as the API shows.

    Raises:
        ApiError, ClientError: the API server does not answer with it.
    """
    now = client.clock.now()
    node = await _found(client.of(Node).get(event.spec.binding_node))
    ready = None if node is None else node.condition("Ready")
    if ready is not None and ready.status != "True" and now - (ready.last_transition_time or now) >= _SETTLED:
        since = f" since {api_time.format_time(ready.last_transition_time)}" if ready.last_transition_time else ""
        return (
            f"the node is not ready{since} ({ready.reason or 'Ready=' + ready.status}), so its agent cannot act;"
            " `fairlead install --claimer` installs a claimer that acts for unreachable nodes"
        )
    bound = await client.of(LifecycleEvent).list_all(field_selector=f"spec.bindingNode={event.spec.binding_node}")
    others = tuple(other for other in bound.items if other.uid != event.uid)
    current = next((item for item in bound.items if item.uid == event.uid), event)
    context = stalls.EventContext(
        node=node,
        transition=await _found(client.of(LifecycleTransition).get(event.spec.transition_name)),
        lease=await _lease(client, event),
        others=others,
    )
    why = stalls.reason(current, stalls.Stage.PENDING, context, now)
    another_is_claimed = any(other.claim_status is ClaimStatus.CLAIMED for other in others)
    if node is None or another_is_claimed or current.status.first_seen_time is not None:
        return why
    return f"{why}; is `fairlead agent` running on the node?"


async def claimant_silence(client: Client, event: LifecycleEvent) -> str:
    """Since when the claimant of an event's node has not renewed the node's Lease; empty while it does.

    Raises:
        ApiError, ClientError: the API server does not answer with it.
    """
    lease = await _lease(client, event)
    return stalls.missing_claimant(event, lease, client.clock.now())


async def claimant_renewal(client: Client, event: LifecycleEvent) -> str:
    """When the claimant of an event last renewed the node's Lease.

    Raises:
        ApiError, ClientError: the API server does not answer with it.
    """
    lease = await _lease(client, event)
    if silence := stalls.missing_claimant(event, lease, client.clock.now()):
        return silence
    renewed = None if lease is None else lease.spec.renew_time
    return "" if renewed is None else f"its claimant last renewed its Lease at {api_time.format_time(renewed)}"


async def _lease(client: Client, event: LifecycleEvent) -> Lease | None:
    return await _found(client.of(Lease).get(event.spec.binding_node, namespace=NAMESPACE_NODE_LEASE))


async def _found(answer: Awaitable[_T]) -> _T | None:
    try:
        return await answer
    except api_errors.NotFound:
        return None
