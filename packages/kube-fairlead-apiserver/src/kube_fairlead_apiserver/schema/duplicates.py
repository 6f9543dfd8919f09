"""Finds duplicate fields in a JSON body, for strict field validation.

A decoder silently keeps the last of two equal keys. Almost no body has duplicates, so keys are counted first. Only when
a body may have more keys than its decoded value is it read again, with every pair kept.

Upstream: sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730/internal/golang/encoding/json/kubernetes_patch.go
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kube_fairlead.api.fielderrors import MAX_PATH_CHARACTERS
from kube_fairlead_apiserver.schema.pruning import MAX_PATHS

__all__ = ["duplicate_fields"]


class _Pairs(list[tuple[str, Any]]):
    """An object as a list of pairs, of a type that differs from an array's."""


def duplicate_fields(body: bytes, decoded: Any) -> list[str]:
    """Return the paths of duplicate fields (``spec.foo``, ``spec.list[0].bar``), each once, in body order.

    ``decoded`` is the decoded body.
    """
    # Every key has a colon, and colons inside strings are the same on both sides unless they are written as \u003a.
    if body.count(b":") == msgspec.json.encode(decoded).count(b":") and rb"\u" not in body:
        return []
    found: dict[str, None] = {}
    # Numbers stay text: only keys matter, and Python rejects very long numbers.
    _walk(json.loads(body, object_pairs_hook=_Pairs, parse_int=str, parse_float=str), "", found)
    return list(found)


def _walk(value: Any, path: str, found: dict[str, None]) -> None:
    if value.__class__ is _Pairs:
        seen: set[str] = set()
        for key, item in value:
            child = (f"{path}.{key}" if path else key)[:MAX_PATH_CHARACTERS]
            if key in seen and len(found) < MAX_PATHS:
                found[child] = None
            seen.add(key)
            _walk(item, child, found)
    elif value.__class__ is list:
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", found)
