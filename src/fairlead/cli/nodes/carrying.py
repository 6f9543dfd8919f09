"""One transition of one node, from the request to its end, as it is shown to whoever asked."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from fairlead.api import errors as api_errors
from fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from fairlead.base import tasks
from fairlead.cli.nodes import asking, following
from fairlead.cli.nodes.showing import Screen
from fairlead.client import errors as client_errors
from fairlead.client.client import Client

__all__ = ["Request", "carry", "complainer"]

# An agent that runs sees an event at once; after this the user wants to know what is the matter.
_HINT_SECONDS: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for, of every node that is meant."""

    transition: LifecycleTransition
    verb: str  # what it is called while it goes on, such as "drain"
    done: str  # what is said of a node when it is over, such as "drained"
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wait: bool = True
    pending_timeout: dt.timedelta = dt.timedelta(0)  # how long it may wait to be claimed; zero: for ever


async def carry(client: Client, screen: Screen, request: Request, node: str) -> bool:
    """Ask for the transition of one node and follow it; whether it succeeded, or was asked for without waiting."""
    asked = await asking.ask(client, request.transition, node, request.options)
    event = asked.event
    if asked.is_new:
        screen.say(f"node/{node}: {request.verb} asked for (lifecycleevent/{event.name})")
    else:
        screen.say(f"node/{node}: {request.verb} is under way already (lifecycleevent/{event.name})")
        if asked.differs:
            screen.warn(f"node/{node}: it goes on with its own options: {asked.differs}")
    if not request.wait:
        return True
    outcome = await _followed(client, screen, request, asked)
    screen.status(node, "")
    if outcome.succeeded:
        screen.say(f"node/{node} {request.done}")
    else:
        screen.warn(f"error: unable to {request.verb} node {node!r}: {outcome.message}")
    return outcome.succeeded


def complainer(screen: Screen, verb: str) -> Callable[[str, Exception], None]:
    """Tells that a node could not be dealt with, and why."""

    def complain(node: str, error: Exception) -> None:
        screen.status(node, "")
        screen.warn(f"error: unable to {verb} node {node!r}: {error}")

    return complain


async def _followed(client: Client, screen: Screen, request: Request, asked: asking.Asked) -> following.Outcome:
    event = asked.event
    node = event.spec.binding_node
    claimed, seen = asyncio.Event(), asyncio.Event()

    def show(current: LifecycleEvent) -> None:
        is_claimed = current.claim_status is not ClaimStatus.PENDING
        if is_claimed:
            claimed.set()
        # An agent that has seen it says by itself what it waits for.
        if is_claimed or current.status.first_seen_time is not None:
            seen.set()
        if not current.finished:
            screen.status(node, following.describe(current))

    async with tasks.TaskScope(f"follow/{event.name}", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(_hint(client, screen, event, seen), name="hint")
        try:
            async with _pending_limit(client, request, claimed):
                last = await following.follow(client, event, show)
        except TimeoutError:
            if given_up := await _given_up(client, asked, request):
                return given_up
            last = await following.follow(client, event, show)
    return await following.outcome_of(client, last, request.transition)


async def _hint(client: Client, screen: Screen, event: LifecycleEvent, seen: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with client.clock.timeout(_HINT_SECONDS):
            await seen.wait()
            return
    # Only a hint: whoever may not look, or cannot now, goes on without it.
    with contextlib.suppress(api_errors.ApiError, client_errors.ClientError):
        why = await following.why_pending(client, event)
        screen.warn(f"node/{event.spec.binding_node}: {why}")


@contextlib.asynccontextmanager
async def _pending_limit(client: Client, request: Request, claimed: asyncio.Event) -> AsyncIterator[None]:
    """Raises TimeoutError in the block if nobody claims in time."""
    if not request.pending_timeout:
        yield
        return
    block = asyncio.current_task()
    expired = False

    async def watchdog() -> None:
        nonlocal expired
        with contextlib.suppress(TimeoutError):
            async with client.clock.timeout(request.pending_timeout.total_seconds()):
                await claimed.wait()
                return
        expired = True
        if block is not None:
            block.cancel()

    async with tasks.TaskScope("pending", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(watchdog(), name="watchdog")
        try:
            yield
        except asyncio.CancelledError:
            if not expired or block is None:
                raise
            block.uncancel()
            raise TimeoutError from None


async def _given_up(client: Client, asked: asking.Asked, request: Request) -> following.Outcome | None:
    """Not claimed in time: delete the event, so that it is not carried out hours later.

    An event that another user created stays. None: it was claimed, or deleted, at the last moment.
    """
    waited = f"{request.pending_timeout.total_seconds():g}s"
    event = asked.event
    try:
        current = await client.of(LifecycleEvent).get(event.name)
        if current.uid != event.uid or current.claim_status is not ClaimStatus.PENDING:
            return None
        if not asked.is_new:
            return following.Outcome(
                succeeded=False, message=f"not claimed within {waited}; the event was there before, so it stays"
            )
        await client.of(LifecycleEvent).delete(
            event.name, uid=event.uid, resource_version=current.metadata.resource_version
        )
    except (api_errors.NotFound, api_errors.Conflict):
        return None
    why = f" ({current.status.message})" if current.status.message else ""
    return following.Outcome(succeeded=False, message=f"not claimed within {waited}, so the event was deleted{why}")
