"""The check before each write: a client that sends nothing on behalf of a term that is over.

A process that slept through its lease (SIGSTOP, a paused machine) wakes up in the middle of what it was doing. What it
reads is harmless; what it writes is not. The gap between check and write stays, and is the API server's to guard:
see `fence`. A leader that has just taken over may be refused by that fence until the API server has noticed its new
Lease; such a write is repeated for as long as the term is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.election.term import Term

__all__ = ["FENCE_MARK", "GuardedTransport", "guarded"]

FENCE_MARK = "does not hold the leader election lease"
"""What every refusal by our fence says."""

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# The API server's own watch of the Lease is a few milliseconds behind, rarely more.
_CATCH_UP = Backoff(initial_seconds=0.01, factor=2.0, cap_seconds=0.5, jitter=0.5)
_CATCH_UP_ATTEMPTS = 8


def guarded(client: Client, term: Term) -> Client:
    """The same client, for the work of one term: its writes raise NotLeading when the lease cannot be relied on.

    It shares the connections of the client it is made of; closing it closes both.
    """
    return client.with_transport(lambda inner: GuardedTransport(inner, term.check, client=client))


class GuardedTransport:
    """Checks before each write, then sends it."""

    def __init__(self, inner: Transport, check: Callable[[], None], *, client: Client) -> None:
        self._inner = inner
        self._check = check
        self._clock = client.clock
        self._randomness = client.randomness

    async def send(self, request: Request) -> Response:
        """Check, send, and try again while the fence has not yet seen that we lead."""
        if request.method in _READS:
            return await self._inner.send(request)
        delays = _CATCH_UP.delays(self._randomness)
        while True:
            self._check()
            response = await self._inner.send(request)
            if not _is_fenced(response) or delays.attempts >= _CATCH_UP_ATTEMPTS:
                return response
            await self._clock.sleep(next(delays))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        """Streams only read."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close what it hands on to."""
        await self._inner.close()


def _is_fenced(response: Response) -> bool:
    return response.status in {403, 422} and FENCE_MARK.encode() in response.body
