"""Leader election in one call.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

from kube_fairlead.base.identity import RandomIds
from kube_fairlead.client.client import Client
from kube_fairlead.election.candidate import Candidate
from kube_fairlead.election.election_record import Timing
from kube_fairlead.election.leadership import Leadership
from kube_fairlead.election.lease import Lock
from kube_fairlead.election.term import Rules, Term

__all__ = ["Handle", "lead", "new_identity"]


class Handle:
    """A hold on a running `lead`, for a program that wants to say when another should lead."""

    def __init__(self) -> None:
        self._leadership: Leadership | None = None

    @property
    def term(self) -> Term | None:
        """The term that is under way; None while another leads."""
        return None if self._leadership is None else self._leadership.term

    def step_down(self) -> bool:
        """End the term in order and follow again; whether there was one to end.

        The work is asked to end, then the lease is released. Other candidates get the first chance at the next term.
        """
        return self._leadership is not None and self._leadership.step_down()

    def take(self, leadership: Leadership) -> None:
        """Called by `lead`."""
        self._leadership = leadership


async def lead(
    client: Client,
    lock: Lock,
    work: Callable[[Term], Awaitable[None]],
    *,
    identity: str = "",
    timing: Timing | None = None,
    rules: Rules | None = None,
    handle: Handle | None = None,
) -> None:
    """Do the work whenever, and only while, this process holds the lease. Returns when the work returns by itself.

    Cancel it to stop: the work is asked to end, then the lease is released, then the cancellation is raised.

    Args:
        client: for the Lease. The work may use it too, best through `guarded`.
        lock: which Lease.
        work: what only a leader does. It ends soon after `term.stopping` is set, and at once when it is cancelled.
        identity: a name that no other process has; made unless given.
        timing: how long leases last; upstream's defaults unless given.
        rules: how terms end.
        handle: what to step down with, from the work or from elsewhere in the program.

    Raises:
        LeadershipLost: a term ended and the rules say not to stay.
        Exception: whatever the work raised.
    """
    candidate = Candidate(client, lock, identity=identity or new_identity(client), timing=timing)
    leadership = Leadership(candidate, work, rules=rules)
    if handle is not None:
        handle.take(leadership)
    await leadership.run()


def new_identity(client: Client, *, host: str = "", pod_uid: str = "") -> str:
    """A name that no other process has, made as upstream's components do: the host's name and a UUID.

    For a pod both its name and its uid are in it, for the fence to compare, and the suffix distinguishes a restarted
    container from the one before.
    """
    ids = RandomIds(client.randomness)
    host = host or socket.gethostname()
    return f"{host}_{pod_uid}_{ids.name_suffix()}" if pod_uid else f"{host}_{ids.uuid()}"
