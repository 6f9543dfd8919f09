"""One transition of one node, from the request to its end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Mapping
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.base import tasks
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.operations import event_requests, event_watch
from kube_fairlead.operations.event_requests import RequestedEvent
from kube_fairlead.operations.progress import (
    EventChanged,
    EventJoined,
    EventRequested,
    Operation,
    Outcome,
    ProgressReport,
    Result,
    TransitionEnded,
    Unclaimed,
)

__all__ = ["TransitionRequest", "run_transition"]

# A running agent claims an event at once; after this the reason is reported.
_UNCLAIMED_SECONDS: Final = 5.0
# A live driver ends at its timeout by itself. Its answer reaches the event by way of the agent and the API server.
_SLACK_SECONDS: Final = 5.0
# How often the Lease of the node's claimant is read.
_LEASE_SECONDS: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRequest:
    """What is requested of a node."""

    operation: Operation
    transition: LifecycleTransition
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wait: bool = True
    # How long the event may stay unclaimed, and how long it is followed after its claim; zero: without limit.
    timeout: dt.timedelta = dt.timedelta(0)


async def run_transition(client: Client, request: TransitionRequest, node: str, report: ProgressReport) -> Outcome:
    """Request a transition of one node and follow its event to the end, if the request says so.

    Raises:
        ApiError, ClientError: the API server rejects the request, or does not answer.
    """
    requested = await event_requests.request_event(client, request.transition, node, request.options)
    event = requested.event
    if requested.is_new:
        report(EventRequested(node, request.operation, event.name))
    else:
        report(EventJoined(node, request.operation, event.name, requested.differences))
    if not request.wait:
        return Outcome(Result.REQUESTED)
    outcome = await _followed(client, request, requested, report)
    report(TransitionEnded(node, request.operation, outcome))
    return outcome


class _Observation:
    """The last known state of an event that is followed, and whether its claimant is alive."""

    def __init__(self, request: TransitionRequest, event: LifecycleEvent, report: ProgressReport) -> None:
        self.event = event
        self.claimed, self.seen = asyncio.Event(), asyncio.Event()
        self._request = request
        self._report = report
        self._silence = ""  # why the claimant counts as dead; empty while it renews its Lease

    def changed(self, current: LifecycleEvent) -> None:
        """The event has a new state."""
        self.event = current
        is_claimed = current.claim_status is not ClaimStatus.PENDING
        if is_claimed:
            self.claimed.set()
        # An agent that has seen the event writes into it what it waits for.
        if is_claimed or current.status.first_seen_time is not None:
            self.seen.set()
        self._show()

    def silent(self, why: str) -> None:
        """The claimant has stopped renewing its Lease or, with an empty reason, renews it again."""
        self._silence = why
        self._show()

    def _show(self) -> None:
        if self.event.finished:
            return
        self._report(
            EventChanged(
                self.event.spec.binding_node,
                self._request.operation,
                self.event,
                event_watch.describe(self.event),
                self._silence if self.seen.is_set() else "",
            )
        )


async def _followed(
    client: Client, request: TransitionRequest, requested: RequestedEvent, report: ProgressReport
) -> Outcome:
    event = requested.event
    observation = _Observation(request, event, report)
    async with tasks.TaskScope(f"follow/{event.name}", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(_explain_unclaimed(client, request, observation, report), name="unclaimed")
        scope.start(_watch_claimant(client, observation), name="claimant")
        while True:
            try:
                async with _limit(client, request, observation.claimed):
                    last = await event_watch.follow(client, event, observation.changed)
            except TimeoutError:
                late = (
                    _overrun(client, observation, request)
                    if observation.claimed.is_set()
                    else _given_up(client, requested, request, observation)
                )
                if outcome := await late:
                    return outcome
            else:
                return await event_watch.outcome_of(client, last, request.transition)


async def _watch_claimant(client: Client, observation: _Observation) -> None:
    """Read the claimant's Lease now and then: a dead claimant writes nothing into the event."""
    while True:
        await client.clock.sleep(_LEASE_SECONDS)
        try:
            why = await event_watch.claimant_silence(client, observation.event)
        except api_errors.Forbidden:
            return  # a user who may not read Leases follows the event without them
        except (api_errors.ApiError, client_errors.ClientError):
            continue
        observation.silent(why)


async def _explain_unclaimed(
    client: Client, request: TransitionRequest, observation: _Observation, report: ProgressReport
) -> None:
    with contextlib.suppress(TimeoutError):
        async with client.clock.timeout(_UNCLAIMED_SECONDS):
            await observation.seen.wait()
            return
    # The reason is additional: a user who may not read the objects follows the event without it.
    with contextlib.suppress(api_errors.ApiError, client_errors.ClientError):
        event = observation.event
        why = await event_watch.why_pending(client, event)
        report(Unclaimed(event.spec.binding_node, request.operation, why))


@contextlib.asynccontextmanager
async def _limit(client: Client, request: TransitionRequest, claimed: asyncio.Event) -> AsyncIterator[None]:
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


async def _overrun(client: Client, observation: _Observation, request: TransitionRequest) -> Outcome:
    """Claimed, and not ended in time: report what is known. The event stays: only its claimant may end it."""
    event = observation.event
    renewal = ""
    with contextlib.suppress(TimeoutError, api_errors.ApiError, client_errors.ClientError):
        async with client.clock.timeout(_SLACK_SECONDS):
            renewal = await event_watch.claimant_renewal(client, event)
    parts = (
        f"it did not end within {_length(request)} of the claim",
        renewal,
        event_watch.describe(event),
        f"event {event.name} continues",
    )
    return Outcome(Result.FAILED, "; ".join(part for part in parts if part), open_event=event.name)


def _length(request: TransitionRequest) -> str:
    return f"{request.timeout.total_seconds():g}s"


async def _given_up(
    client: Client, requested: RequestedEvent, request: TransitionRequest, observation: _Observation
) -> Outcome | None:
    """Not claimed in time: delete the event, so that it is not carried out hours later.

    An event that another user created stays. None: it was claimed, or deleted, at the last moment.
    """
    waited, event = _length(request), requested.event
    try:
        async with client.clock.timeout(_SLACK_SECONDS):
            return await _withdrawn(client, requested, waited, observation)
    except TimeoutError:
        message = f"not claimed within {waited}, and the API server does not answer, so event {event.name} stays"
        return Outcome(Result.FAILED, message, open_event=event.name)


async def _withdrawn(
    client: Client, requested: RequestedEvent, waited: str, observation: _Observation
) -> Outcome | None:
    event = requested.event
    try:
        current = await client.of(LifecycleEvent).get(event.name)
        if current.uid != event.uid:
            return None
        if current.claim_status is not ClaimStatus.PENDING:
            observation.changed(current)
            return None
        if not requested.is_new:
            message = f"not claimed within {waited}; the event existed before, so it stays"
            return Outcome(Result.FAILED, message, open_event=event.name)
        await client.of(LifecycleEvent).delete(
            event.name, uid=event.uid, resource_version=current.metadata.resource_version
        )
    except (api_errors.NotFound, api_errors.Conflict):
        return None
    why = f" ({current.status.message})" if current.status.message else ""
    return Outcome(Result.FAILED, f"not claimed within {waited}, so the event was deleted{why}")
