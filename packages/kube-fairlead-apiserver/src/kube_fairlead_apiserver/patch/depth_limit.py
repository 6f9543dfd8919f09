"""A bound on nesting, so that a hostile body ends in 400 and never in an exhausted stack."""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch import patch_errors

__all__ = ["MAX_DEPTH", "ensure_depth"]

# The walks here use one or two Python frames per level and the interpreter allows about a thousand in all.
# The deepest objects met in practice, schemas inside CustomResourceDefinitions, stay below a hundred.
MAX_DEPTH = 256


def ensure_depth(value: Any, limit: int = MAX_DEPTH) -> None:
    """Raise BadRequest when `value` nests deeper than `limit`. Walks level by level, so it cannot overflow."""
    level = [value]
    for _ in range(limit + 1):
        below: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                below.extend(child for child in container.values() if isinstance(child, (dict, list)))
            elif isinstance(container, list):
                below.extend(child for child in container if isinstance(child, (dict, list)))
        if not below:
            return
        level = below
    raise patch_errors.too_deep(MAX_DEPTH)
