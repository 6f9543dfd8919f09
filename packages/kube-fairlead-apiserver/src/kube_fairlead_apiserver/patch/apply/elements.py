"""Path elements: the keys of FieldsV1, one step from an object into one of its parts.

`f:<name>` is a field, `k:{...}` an item of a list by its keys, `v:<json>` an item of a set, `i:<n>` an item by
position, and `.` stands for the object itself. Elements are strings in one canonical form, so equal steps are equal
strings.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/element.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/serialize-pe.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/path.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/serialize.go
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.errors import BadRequest
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth
from kube_fairlead_apiserver.patch.value_limit import ensure_few_values

__all__ = ["SELF", "MalformedFieldsError", "canonical", "describe", "json_scalar", "value_element"]

SELF = "."


class MalformedFieldsError(ValueError):
    """FieldsV1 from a client, or the entry around it, is malformed."""


# Longer texts are rare as keys, and the cache must be bounded in bytes, too.
_REMEMBERED_LENGTH = 256


@functools.lru_cache(maxsize=8192)
def _json_string(text: str) -> str:
    return golang.json_text(text)


def json_scalar(value: Any) -> str:
    """Return a key's value in canonical JSON; 80.0 and 80 are the same key."""
    if isinstance(value, str):
        return _json_string(value) if len(value) <= _REMEMBERED_LENGTH else golang.json_text(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return golang.json_text(value)


def value_element(value: Any) -> str:
    """Return the element of a scalar in a set."""
    return "v:" + json_scalar(value)


def canonical(element: str) -> str | None:
    """Return the element in the form that this server writes; None for an unknown kind of element."""
    if len(element) < 2:
        raise MalformedFieldsError("key must be 2 characters long:")
    if element[1] != ":":
        raise MalformedFieldsError(f"missing colon: {element}")
    kind, content = element[0], element[2:]
    match kind:
        case "f":
            return element
        case "v":
            return "v:" + json_scalar(_decoded(content))
        case "k":
            keys = _decoded(content)
            if not isinstance(keys, dict):
                raise MalformedFieldsError(f"expected an object of keys: {element}")
            return "k:{" + ",".join(f"{json_scalar(name)}:{json_scalar(keys[name])}" for name in sorted(keys)) + "}"
        case "i":
            if not content.lstrip("+-").isdecimal():
                raise MalformedFieldsError(f"not an index: {element}")
            return f"i:{int(content)}"
        case _:
            return None


def describe(element: str) -> str:
    """Return the element as error messages show it: `.name`, `[name="web",port=80]`, `[="x"]`, `[0]`."""
    kind, content = element[0], element[2:]
    if kind == "f":
        return "." + content
    if kind == "k":
        keys = _decoded(content)
        return "[" + ",".join(f"{name}={_printed(keys[name])}" for name in sorted(keys)) + "]"
    if kind == "v":
        return f"[={_printed(_decoded(content))}]"
    return f"[{content}]"


def _decoded(content: str) -> Any:
    try:
        ensure_few_values(content.encode())
        value = msgspec.json.decode(content)
        ensure_depth(value)
    except (msgspec.DecodeError, RecursionError, ValueError, BadRequest) as error:
        raise MalformedFieldsError(f"parsing key as path element: {error}") from None
    return value


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return golang.quote(value)
    if isinstance(value, float):
        return golang.print_float(value)
    return golang.json_text(value)
