"""Limits the work of one validation.

Each level of `anyOf`, `allOf`, `oneOf` or `not` multiplies the schemas that a value is compared with. So a small object
and a small schema can take hours. The comparisons below these junctors are counted and limited.

CEL rules have Kubernetes' cost budget, which limits cel-go's work, and here limits the time only roughly. So an object
is validated in a thread beside the event loop when its rules may loop over its lists, however small it is.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["EXPLAINED", "MOST_COMPARISONS", "TooCostly", "count_loops", "count_parts", "limited", "spend"]

# An object of 200,000 values, the maximum of a body, needs less with ten alternatives for each value.
MOST_COMPARISONS = 2_000_000
# Explaining the errors takes so many times as long as detecting one.
EXPLAINED = 20
# CEL loops over a list in macros, and in functions that compare all elements with each other.
_LOOPS = re.compile(
    r"\b(?:all|exists|exists_one|existsOne|filter|map|sortBy|transformList|transformMap|transformMapEntry)\s*\("
    r"|\bsets\s*\."
)
_LOOP = 64  # steps of each loop around or in a rule
_MOST_LOOPS = 4
_JUNCTORS = ("allOf", "anyOf", "oneOf")


class TooCostly(Exception):
    """The validation needs more comparisons than its limit."""


class _ComparisonBudget(threading.local):
    """The rest of the budget, for each thread: a large object may be validated beside a small one."""

    left: float = float("inf")


_effort = _ComparisonBudget()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Within this context, `spend` raises TooCostly after `MOST_COMPARISONS`."""
    _effort.left = MOST_COMPARISONS
    try:
        yield
    finally:
        _effort.left = float("inf")


def spend(comparisons: int) -> None:
    """Charge the comparison of a value with so many schemas."""
    _effort.left -= comparisons
    if _effort.left < 0:
        raise TooCostly


def count_parts(schema: Mapping[str, Any]) -> int:
    """Return the maximum number of schemas below junctors that one value is compared with."""
    own = sum(_count_below(part) for part in _parts(schema))
    return max([own, *(count_parts(child) for child in _children(schema))])


def count_loops(schema: Mapping[str, Any], around: int = 0) -> int:
    """Return the estimated steps of an object's rules for each byte of it; 0 when they loop over no list."""
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
