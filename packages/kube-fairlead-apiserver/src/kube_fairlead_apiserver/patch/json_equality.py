"""Compares JSON values. This is stricter than Python's equality: true is not 1."""

from __future__ import annotations

from typing import Any

__all__ = ["same_json"]


def same_json(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON. The order of members does not count, and 1 equals 1.0."""
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same_json(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(same_json(one, other) for one, other in zip(left, right, strict=True))
        )
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
