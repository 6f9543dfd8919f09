"""Which nodes may be taken out of service at the same time."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

__all__ = ["ZONE_LABEL", "Limits", "startable"]

ZONE_LABEL: Final = "topology.kubernetes.io/zone"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many nodes at once: in all, and in one zone (0: no limit of its own)."""

    max_unavailable: int = 1
    per_zone: int = 0


def startable(
    waiting: Sequence[str], active: Collection[str], zones: Mapping[str, str], limits: Limits
) -> tuple[str, ...]:
    """The nodes that may be started now, in their order. A zone that is full does not hold up the others.

    Nodes without a zone count as one zone of their own: nothing is known that would set them apart.
    """
    per_zone: dict[str, int] = {}
    for node in active:
        zone = zones.get(node, "")
        per_zone[zone] = per_zone.get(zone, 0) + 1
    chosen: list[str] = []
    for node in waiting:
        if len(active) + len(chosen) >= limits.max_unavailable:
            break
        zone = zones.get(node, "")
        if limits.per_zone and per_zone.get(zone, 0) >= limits.per_zone:
            continue
        per_zone[zone] = per_zone.get(zone, 0) + 1
        chosen.append(node)
    return tuple(chosen)
