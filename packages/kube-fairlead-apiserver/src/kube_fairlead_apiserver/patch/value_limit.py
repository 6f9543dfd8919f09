"""Limits the number of values in a JSON body, before the body is decoded.

A body of 3 MB can hold a million empty lists, which take a hundred times its size in memory, and seconds of the event
loop.
"""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead.api.yamltext.parser import MAX_VALUES

__all__ = ["TooManyValues", "ensure_few_values"]

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class TooManyValues(ValueError):
    """The body has more values than the limit."""


def ensure_few_values(data: bytes) -> None:
    """Raise TooManyValues when there are more items and members than the limit.

    Each item but the first of a list or an object has a comma before it, and the first a bracket. Strings may contain
    these characters, too: if there seem to be too many, they are counted again without strings.
    """
    if _marks(data, 0, len(data)) <= MAX_VALUES:
        return
    found = end = 0
    for text in _TEXT.finditer(data):
        found += _marks(data, end, text.start())
        end = text.end()
        if found > MAX_VALUES:
            break
    if found + _marks(data, end, len(data)) > MAX_VALUES:
        raise TooManyValues(f"it has more than {MAX_VALUES} values")


def _marks(data: bytes, start: int, end: int) -> int:
    return data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)
