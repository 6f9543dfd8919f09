"""Which nodes may be unavailable at the same time, and when a node is available again. Pure.

Guarantees of `startable`, for any input:
1. At most `max_unavailable` nodes are active at once, and at most `per_zone` of one zone.
2. An available node is started only if it, the active nodes and the unavailable nodes are together within both limits.
   A node that is unavailable already does not reduce availability, so only rule 1 applies to it.
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
    """How many nodes at once: in total, and per zone (0: no limit per zone)."""

    max_unavailable: int = 1
    per_zone: int = 0


def is_unavailable(node: Node) -> bool:
    """Whether a node accepts no pods: it is cordoned or not Ready."""
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
    """Return the nodes that may be started now, in their order. A node that must wait does not block the others.

    Args:
        waiting: the nodes that are not started yet.
        active: the nodes in progress.
        zones: the zone of each node. All nodes without a zone count as one zone.
        limits: how many at once.
        unavailable: nodes that are unavailable now, for any reason; they may also be in `waiting`.
    """
    started = list(active)
    out = set(unavailable) | set(active)
    chosen: list[str] = []
    for node in waiting:
        counted = started if node in out else [*out]
        zone = zones.get(node, "")
        in_zone = sum(zones.get(other, "") == zone for other in counted)
        if len(counted) >= limits.max_unavailable or (limits.per_zone and in_zone >= limits.per_zone):
            continue
        started.append(node)
        out.add(node)
        chosen.append(node)
    return tuple(chosen)


@dataclasses.dataclass(frozen=True, slots=True)
class Readiness:
    """Since when a node has been Ready without interruption, and in which boot."""

    since: dt.datetime | None = None
    boot_id: str = ""

    def seen(self, node: Node | None, now: dt.datetime) -> Readiness:
        """Return the state after one more observation. A deleted, unready or rebooted node starts from zero."""
        ready = None if node is None else node.condition("Ready")
        if node is None or ready is None or ready.status != "True":
            return Readiness()
        boot_id = node.status.node_info.boot_id
        if self.since is not None and boot_id == self.boot_id:
            return self
        return Readiness(now, boot_id)

    def fit_at(self, min_ready: dt.timedelta) -> dt.datetime | None:
        """Return when the node will have been Ready for long enough; None while it is not Ready."""
        return None if self.since is None else self.since + min_ready
