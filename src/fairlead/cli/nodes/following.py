"""Following an event to its end, across broken connections, and even when it is deleted the moment it has finished."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Final

from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import Node
from fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION
from fairlead.client import errors as client_errors
from fairlead.client import follow as follow_client
from fairlead.client.client import Client
from fairlead.client.watch import Change

__all__ = ["Outcome", "describe", "follow", "outcome_of", "why_pending"]

_SETTLED: Final = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How an event ended."""

    succeeded: bool
    message: str = ""


async def follow(client: Client, event: LifecycleEvent, on_change: Callable[[LifecycleEvent], None]) -> LifecycleEvent:
    """Tell of every state of an event from now on; the last one: terminal, unless it went while nobody watched."""
    events = client.of(LifecycleEvent)
    only = f"metadata.name={event.name}"
    delays = follow_client.RECONNECT.delays(client.randomness)
    last = event
    while True:
        try:
            page = await events.list(field_selector=only)
            current = next((item for item in page.items if item.uid == event.uid), None)
            if current is None:
                return last
            last = current
            on_change(last)
            if last.finished:
                return last
            delays.reset()
            async with events.follow(resource_version=page.resource_version, field_selector=only) as changes:
                async for change in changes:
                    if isinstance(change, Change) and change.object.uid == event.uid:
                        last = change.object
                        on_change(last)
                        if last.finished:
                            return last
        except api_errors.Expired:
            pass  # list again
        except client_errors.ClientError as error:
            if not error.is_retryable:
                raise
        await client.clock.sleep(next(delays))


async def outcome_of(client: Client, event: LifecycleEvent, transition: LifecycleTransition) -> Outcome:
    """How an event ended whose last known state this is."""
    if event.finished:
        return Outcome(event.claim_status is ClaimStatus.SUCCEEDED, event.status.message)
    # It finished and was deleted while nobody watched. The Node keeps the state that was reached.
    node = await client.of(Node).get(event.spec.binding_node)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    reached = condition.reason if condition is not None else "nothing"
    if reached == transition.spec.end:
        return Outcome(succeeded=True)
    said = f": {condition.message}" if condition is not None else ""
    return Outcome(succeeded=False, message=f"event {event.name} is gone, and the node says {reached}{said}")


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


async def why_pending(client: Client, node_name: str, now: dt.datetime) -> str:
    """What is the matter with a node whose agent does not answer; empty when nothing is seen."""
    try:
        node = await client.of(Node).get(node_name)
    except api_errors.NotFound:
        return f"node {node_name} does not exist any more"
    ready = node.condition("Ready")
    if ready is None or ready.status == "True" or now - (ready.last_transition_time or now) < _SETTLED:
        return "no agent has seen the event yet; is `fairlead agent` running on the node?"
    since = f" since {ready.last_transition_time:%Y-%m-%dT%H:%M:%SZ}" if ready.last_transition_time else ""
    return (
        f"the node is not ready{since} ({ready.reason or 'Ready=' + ready.status}), so its agent cannot act;"
        " a controller manager with the claimer controller acts for nodes that are out of reach"
    )
