"""One transition of one node, from the request to its end, as it is shown to whoever asked."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.base import tasks
from kube_fairlead.cli.nodes import asking, following
from kube_fairlead.cli.nodes.showing import Screen
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client

__all__ = ["Request", "carry", "complainer"]

# An agent that runs sees an event at once; after this the user wants to know what is the matter.
_HINT_SECONDS: Final = 5.0
# A driver that is alive ends at the timeout itself. Its report passes the agent and the API server on its way here.
_SLACK_SECONDS: Final = 5.0
# How often the Lease of the node's claimant is read.
_LEASE_SECONDS: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for, of every node that is meant."""

    transition: LifecycleTransition
    verb: str  # what it is called while it goes on, such as "drain"
    done: str  # what is said of a node when it is over, such as "drained"
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wait: bool = True
    # How long it may wait to be claimed, and how long it is followed after that; zero: for ever.
    timeout: dt.timedelta = dt.timedelta(0)


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


class _Sight:
    """What is known of an event that is followed, and the line that is shown of it."""

    def __init__(self, screen: Screen, event: LifecycleEvent) -> None:
        self.event = event
        self.claimed, self.seen = asyncio.Event(), asyncio.Event()
        self._screen = screen
        self._silence = ""  # why the claimant does not answer; empty while it does

    def changed(self, current: LifecycleEvent) -> None:
        """The event has a new state."""
        self.event = current
        is_claimed = current.claim_status is not ClaimStatus.PENDING
        if is_claimed:
            self.claimed.set()
        # An agent that has seen it says by itself what it waits for.
        if is_claimed or current.status.first_seen_time is not None:
            self.seen.set()
        self._show()

    def silent(self, why: str) -> None:
        """The claimant does not answer, or, with an empty reason, answers again."""
        self._silence = why
        self._show()

    def _show(self) -> None:
        if self.event.finished:
            return
        said = following.describe(self.event)
        # What the claimant wrote is from before it fell silent.
        text = f"{self._silence}; last known: {said}" if self._silence and self.seen.is_set() else said
        self._screen.status(self.event.spec.binding_node, text)


async def _followed(client: Client, screen: Screen, request: Request, asked: asking.Asked) -> following.Outcome:
    event = asked.event
    sight = _Sight(screen, event)
    async with tasks.TaskScope(f"follow/{event.name}", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(_hint(client, screen, event, sight.seen), name="hint")
        scope.start(_watch_claimant(client, sight), name="claimant")
        while True:
            try:
                async with _limit(client, request, sight.claimed):
                    last = await following.follow(client, event, sight.changed)
            except TimeoutError:
                late = (
                    _overrun(client, sight, request)
                    if sight.claimed.is_set()
                    else _given_up(client, asked, request, sight)
                )
                if outcome := await late:
                    return outcome
            else:
                return await following.outcome_of(client, last, request.transition)


async def _watch_claimant(client: Client, sight: _Sight) -> None:
    """Look at the Lease now and then: a claimant that is dead writes nothing into the event."""
    while True:
        await client.clock.sleep(_LEASE_SECONDS)
        try:
            why = await following.claimant_silence(client, sight.event)
        except api_errors.Forbidden:
            return  # a user who may not read Leases follows without it
        except (api_errors.ApiError, client_errors.ClientError):
            continue
        sight.silent(why)


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
async def _limit(client: Client, request: Request, claimed: asyncio.Event) -> AsyncIterator[None]:
    """Raises TimeoutError in the block if the event is not claimed in time, or does not end in time after that."""
    if not request.timeout:
        yield
        return
    block = asyncio.current_task()
    expired = False
    seconds = request.timeout.total_seconds()

    async def watchdog() -> None:
        nonlocal expired
        with contextlib.suppress(TimeoutError):
            async with client.clock.timeout(seconds):
                await claimed.wait()
        if claimed.is_set():
            await client.clock.sleep(seconds + _SLACK_SECONDS)
        expired = True
        if block is not None:
            block.cancel()

    async with tasks.TaskScope("limit", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(watchdog(), name="watchdog")
        try:
            yield
        except asyncio.CancelledError:
            if not expired or block is None:
                raise
            block.uncancel()
            raise TimeoutError from None


async def _overrun(client: Client, sight: _Sight, request: Request) -> following.Outcome:
    """Claimed, and not ended in time: say what is known. The event stays; only its claimant may end it."""
    event = sight.event
    known = ""
    with contextlib.suppress(TimeoutError, api_errors.ApiError, client_errors.ClientError):
        async with client.clock.timeout(_SLACK_SECONDS):
            known = await following.claimant_sign(client, event)
    parts = [f"it did not end within {_length(request)} of the claim", known, following.describe(event)]
    node = event.spec.binding_node
    more = f"event {event.name} goes on: `fairlead status {node}` shows it, and the same command again follows it"
    return following.Outcome(succeeded=False, message="; ".join(part for part in (*parts, more) if part))


def _length(request: Request) -> str:
    return f"{request.timeout.total_seconds():g}s"


async def _given_up(client: Client, asked: asking.Asked, request: Request, sight: _Sight) -> following.Outcome | None:
    """Not claimed in time: delete the event, so that it is not carried out hours later.

    An event that another user created stays. None: it was claimed, or deleted, at the last moment.
    """
    waited, event = _length(request), asked.event
    try:
        async with client.clock.timeout(_SLACK_SECONDS):
            return await _withdrawn(client, asked, waited, sight)
    except TimeoutError:
        message = f"not claimed within {waited}, and the API server does not answer, so event {event.name} stays"
        return following.Outcome(succeeded=False, message=message)


async def _withdrawn(client: Client, asked: asking.Asked, waited: str, sight: _Sight) -> following.Outcome | None:
    event = asked.event
    try:
        current = await client.of(LifecycleEvent).get(event.name)
        if current.uid != event.uid:
            return None
        if current.claim_status is not ClaimStatus.PENDING:
            sight.changed(current)
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
