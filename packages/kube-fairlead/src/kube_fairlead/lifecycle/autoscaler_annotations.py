"""The annotations that keep autoscalers from removing a node while it is in a transition.

Cluster Autoscaler and Karpenter each have one. The agent neither overwrites nor removes an annotation that another
client set. A third annotation lists those that the agent set, so that a restarted agent can remove them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ANNOTATION_HELD", "HOLDS", "hold", "release"]

HOLDS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
# The keys of those that the agent set, separated by commas.
ANNOTATION_HELD: Final = "autoscaling.fairlead.dev/held"


def hold(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the annotations to add so that autoscalers keep the node; empty when they are all set."""
    ours = _ours(annotations)
    wanted = {key: value for key, value in HOLDS.items() if key in ours or key not in annotations}
    changes: dict[str, str | None] = {k: v for k, v in wanted.items() if annotations.get(k) != v}
    names = ",".join(sorted(wanted))
    if wanted and annotations.get(ANNOTATION_HELD) != names:
        changes[ANNOTATION_HELD] = names
    return changes


def release(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changes that revert `hold` (None: remove the key); empty when the agent set nothing."""
    if ANNOTATION_HELD not in annotations:
        return {}
    removed: dict[str, str | None] = {key: None for key in sorted(_ours(annotations)) if key in annotations}
    return {**removed, ANNOTATION_HELD: None}


def _ours(annotations: Mapping[str, str]) -> frozenset[str]:
    named = annotations.get(ANNOTATION_HELD, "").split(",")
    # Any client can write this annotation, so a key that `hold` never sets is not removed.
    return frozenset(key for key in named if key in HOLDS)
