"""Telling autoscalers to leave a node alone while it is in a transition, in the words they know.

Cluster Autoscaler and Karpenter each have an annotation for it. One that somebody else set is theirs: it is neither
overwritten nor removed. Which ones are ours is written beside them, so that a restarted agent knows too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ANNOTATION_HELD", "HOLDS", "hold", "release"]

HOLDS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
# Which of the two are ours, separated by commas.
ANNOTATION_HELD: Final = "autoscaling.fairlead.dev/held"


def hold(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """What to change in a node's annotations to keep autoscalers away; empty when nothing is left to do."""
    ours = _ours(annotations)
    wanted = {key: value for key, value in HOLDS.items() if key in ours or key not in annotations}
    changes: dict[str, str | None] = {k: v for k, v in wanted.items() if annotations.get(k) != v}
    names = ",".join(sorted(wanted))
    if wanted and annotations.get(ANNOTATION_HELD) != names:
        changes[ANNOTATION_HELD] = names
    return changes


def release(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """What to change to take back what `hold` set (None: remove); empty when nothing of ours is there."""
    if ANNOTATION_HELD not in annotations:
        return {}
    removed: dict[str, str | None] = {key: None for key in sorted(_ours(annotations)) if key in annotations}
    return {**removed, ANNOTATION_HELD: None}


def _ours(annotations: Mapping[str, str]) -> frozenset[str]:
    named = annotations.get(ANNOTATION_HELD, "").split(",")
    # Somebody could write anything there; only what we may have set is ever removed.
    return frozenset(key for key in named if key in HOLDS)
