"""Several locks, several replicas: which replica should request which lock. Pure; `group` and `manager` act on it.

No replica knows how many there are. One that holds two locks fewer than another requests one of the other's, in the
Lease itself (its preferred holder); the other then steps down in order. Each such move makes the difference smaller,
so it ends, and an unhealthy replica requests nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kube_fairlead.election import LeaderElectionRecord

__all__ = ["lock_to_request"]


def lock_to_request(locks: Mapping[str, LeaderElectionRecord], identity: str) -> str | None:
    """The lock that this replica should request now; None when all is balanced, or a move is under way.

    Args:
        locks: what each lock's Lease says.
        identity: this replica's, the same for all locks.
    """
    if any(record.preferred_holder for record in locks.values()):
        return None  # one move at a time: the next is judged by what this one leads to
    if not all(record.holder for record in locks.values()):
        return None  # a free lock is acquired, not requested
    held = Counter(record.holder for record in locks.values())
    mine = held[identity]
    most = max(held.values())
    if most - mine < 2:
        return None
    # Everyone in need picks the same one, and the API server lets one of them have it.
    return min(lock for lock, record in locks.items() if held[record.holder] == most)
