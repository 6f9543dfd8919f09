"""How much work one validation may take.

Each level of `anyOf`, `allOf`, `oneOf` or `not` multiplies the schemas that a value is compared with. A small object
and a small schema can so take hours. What is compared inside of those is counted, and ends after a bounded number.

CEL rules have Kubernetes' budget, which bounds what cel-go does, and here bounds the time only roughly. So an object is
validated beside the event loop as soon as its rules may go through lists of it, however small it is.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["EXPLAINED", "MOST_COMPARISONS", "TooCostly", "count_loops", "count_parts", "limited", "spend"]

# An object of 200,000 values, the most a body may have, is within it with ten alternatives for each value.
MOST_COMPARISONS = 2_000_000
# To say what is wrong takes so many times as long as to see that something is.
EXPLAINED = 20
# What makes CEL go through a list: macros, and functions that compare each element with each.
_LOOPS = re.compile(
    r"\b(?:all|exists|exists_one|existsOne|filter|map|sortBy|transformList|transformMap|transformMapEntry)\s*\("
    r"|\bsets\s*\."
)
_LOOP = 64  # steps, of each loop that goes around a rule or is in it
_MOST_LOOPS = 4
_JUNCTORS = ("allOf", "anyOf", "oneOf")


class TooCostly(Exception):
    """The validation takes more comparisons than it may."""


class _ComparisonBudget(threading.local):
    """One for each thread: a large object may be validated beside a small one."""

    left: float = float("inf")


_effort = _ComparisonBudget()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Inside of it, `spend` raises TooCostly after `MOST_COMPARISONS`."""
    _effort.left = MOST_COMPARISONS
    try:
        yield
    finally:
        _effort.left = float("inf")


def spend(comparisons: int) -> None:
    """A value is compared with so many schemas."""
    _effort.left -= comparisons
    if _effort.left < 0:
        raise TooCostly


def count_parts(schema: Mapping[str, Any]) -> int:
    """With how many schemas below junctors one value is compared at most."""
    own = sum(_count_below(part) for part in _parts(schema))
    return max([own, *(count_parts(child) for child in _children(schema))])


def count_loops(schema: Mapping[str, Any], around: int = 0) -> int:
    """As how many steps for each byte of an object its rules count; 0 where they go through no list of it."""
    steps = 0
    for rule in schema.get("x-kubernetes-validations") or ():
        loops = around + sum(len(_LOOPS.findall(rule.get(text) or "")) for text in ("rule", "messageExpression"))
        steps += _LOOP ** min(loops, _MOST_LOOPS) if loops else 0
    properties = (schema.get("properties") or {}).values()
    elements = [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)]
    steps += sum(count_loops(child, around) for child in properties)
    return steps + sum(count_loops(child, around + 1) for child in elements)


def _count_below(part: Mapping[str, Any]) -> int:
    return 1 + sum(map(_count_below, (*_parts(part), *_children(part))))


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for junctor in _JUNCTORS:
        yield from schema.get(junctor) or ()
    if isinstance(schema.get("not"), Mapping):
        yield schema["not"]


def _children(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (schema.get("properties") or {}).values()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield schema[key]
