"""Leading in one call, for whoever needs no more than that."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

from fairlead.base.identity import RandomIds
from fairlead.client.client import Client
from fairlead.election.candidate import Candidate
from fairlead.election.leadership import Leadership
from fairlead.election.lease import Lock
from fairlead.election.record import Timing
from fairlead.election.term import Rules, Term

__all__ = ["lead", "new_identity"]


async def lead(
    client: Client,
    lock: Lock,
    work: Callable[[Term], Awaitable[None]],
    *,
    identity: str = "",
    timing: Timing | None = None,
    rules: Rules | None = None,
) -> None:
    """Do the work whenever, and only while, this process holds the lease. Returns when the work returns by itself.

    Cancel it to stop: the work is asked to end, then the lease is released, then the cancellation goes on.

    Args:
        client: for the Lease. The work may use it too, best through `guarded`.
        lock: which Lease.
        work: what only a leader does. It ends soon after `term.stopping` is set, and at once when it is cancelled.
        identity: a name that no other process has; made unless given.
        timing: how long leases last; upstream's defaults unless given.
        rules: how terms end.

    Raises:
        LeadershipLost: a term ended and the rules say not to stay.
        Exception: whatever the work raised.
    """
    candidate = Candidate(client, lock, identity=identity or new_identity(client), timing=timing)
    await Leadership(candidate, work, rules=rules).run()


def new_identity(client: Client, *, host: str = "", pod_uid: str = "") -> str:
    """A name that no other process has, made as upstream's components do: the host's name and a UUID.

    For a pod both its name and its uid are in it, for the fence to compare, and the end tells a restarted container
    from the one before.
    """
    ids = RandomIds(client.randomness)
    host = host or socket.gethostname()
    return f"{host}_{pod_uid}_{ids.name_suffix()}" if pod_uid else f"{host}_{ids.uuid()}"
