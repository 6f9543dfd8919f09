"""Which nodes may be taken out of service at the same time, and when one is back in it. Pure.

Guarantees of `startable`, whatever it is given:
1. No more nodes are worked on at once than `max_unavailable`, nor of one zone than `per_zone`.
2. A node that is in service is begun only if it, the nodes worked on, and those already unavailable are within both.
   A node that is unavailable anyway takes nothing away, so rule 1 alone decides about it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kube_fairlead.api.core_v1 import Node

__all__ = ["ZONE_LABEL", "Limits", "Readiness", "is_unavailable", "startable"]

ZONE_LABEL: Final = "topology.kubernetes.io/zone"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many nodes at once: in all, and in one zone (0: no limit of its own)."""

    max_unavailable: int = 1
    per_zone: int = 0


def is_unavailable(node: Node) -> bool:
    """Whether a node takes no pods now: it is cordoned, or does not say that it is Ready."""
    ready = node.condition("Ready")
    return bool(node.spec.unschedulable) or ready is None or ready.status != "True"


def startable(
    waiting: Sequence[str],
    active: Collection[str],
    zones: Mapping[str, str],
    limits: Limits,
    *,
    unavailable: Collection[str] = (),
) -> tuple[str, ...]:
    """The nodes that may be started now, in their order. A node that may not does not hold up the others.

    Args:
        waiting: the nodes that are still to be done.
        active: those that are worked on.
        zones: the zone of each. Nodes without one count as one zone of their own: nothing is known that would set
            them apart.
        limits: how many at once.
        unavailable: nodes that are out of service now, for whatever reason; those still waiting among them.
    """
    begun = list(active)
    out = set(unavailable) | set(active)
    chosen: list[str] = []
    for node in waiting:
        counted = begun if node in out else [*out]
        zone = zones.get(node, "")
        in_zone = sum(zones.get(other, "") == zone for other in counted)
        if len(counted) >= limits.max_unavailable or (limits.per_zone and in_zone >= limits.per_zone):
            continue
        begun.append(node)
        out.add(node)
        chosen.append(node)
    return tuple(chosen)


@dataclasses.dataclass(frozen=True, slots=True)
class Readiness:
    """Since when a node has been seen Ready without a break, and in which boot. Begin with none seen."""

    since: dt.datetime | None = None
    boot_id: str = ""

    def seen(self, node: Node | None, now: dt.datetime) -> Readiness:
        """After one more look. A node that is gone, not Ready, or in another boot begins anew."""
        ready = None if node is None else node.condition("Ready")
        if node is None or ready is None or ready.status != "True":
            return Readiness()
        boot_id = node.status.node_info.boot_id
        if self.since is not None and boot_id == self.boot_id:
            return self
        return Readiness(now, boot_id)

    def fit_at(self, min_ready: dt.timedelta) -> dt.datetime | None:
        """When the node has been Ready for long enough, unless that changes; None while it is not Ready."""
        return None if self.since is None else self.since + min_ready
