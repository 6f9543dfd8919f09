"""Limits the nesting of JSON: a body that nests too deeply gets a 400 and never exhausts the stack."""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch import patch_errors

__all__ = ["MAX_DEPTH", "ensure_depth"]

# The recursive functions here use one or two Python frames per level; the interpreter allows about a thousand.
# The deepest real objects, schemas inside CustomResourceDefinitions, stay below a hundred levels.
MAX_DEPTH = 256


def ensure_depth(value: Any, limit: int = MAX_DEPTH) -> None:
    """Raise BadRequest when `value` nests deeper than `limit`. The walk is level by level, so it cannot overflow."""
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
