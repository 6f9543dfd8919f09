"""Formats JSON values as Go does with `%v`, for the error messages of strategic merge patches."""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import golang

__all__ = ["go_type", "go_value"]


def go_value(value: Any) -> str:
    """Format a value as `%v` does: `map[a:1 b:[x y]]`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_value(item) for item in value) + "]"
    if isinstance(value, float):
        return golang.print_float(value)
    return str(value)


def go_type(value: Any) -> str:
    """Return the Go type of a decoded JSON value."""
    names = {
        bool: "bool",
        dict: "map[string]interface {}",
        float: "float64",
        int: "int64",
        list: "[]interface {}",
        str: "string",
    }
    return names.get(type(value), "%!s(<nil>)")
