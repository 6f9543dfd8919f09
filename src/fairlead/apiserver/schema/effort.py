"""How much work one validation may take.

Each level of `anyOf`, `allOf`, `oneOf` or `not` multiplies the schemas that a value is compared with. A small object
and a small schema can so take hours. What is compared inside of those is counted, and ends after a bounded number.

CEL rules have a budget of their own, Kubernetes'. Spending all of it takes half a second, so on the event loop a rule
may use only a part of it. An object that needs more is validated again in the thread for large objects.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

__all__ = [
    "EXPLAINED",
    "MOST_COMPARISONS",
    "TURN_COST",
    "TakesLong",
    "TooCostly",
    "count_parts",
    "in_turn",
    "limited",
    "one_turn",
    "spend",
]

# An object of 200,000 values, the most a body may have, is within it with ten alternatives for each value.
MOST_COMPARISONS = 2_000_000
# To say what is wrong takes so many times as long as to see that something is.
EXPLAINED = 20
# What CEL rules may cost in one turn of the event loop; some ten milliseconds.
TURN_COST = 200_000
_T = TypeVar("_T")
_JUNCTORS = ("allOf", "anyOf", "oneOf")


class TooCostly(Exception):
    """The validation takes more comparisons than it may."""


class TakesLong(Exception):
    """The work takes longer than one turn of the event loop. Nothing was changed; a thread can do it."""


class _Effort(threading.local):
    """One for each thread: a large object may be validated beside a small one."""

    left: float = float("inf")
    in_turn: bool = False


_effort = _Effort()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Inside of it, `spend` raises TooCostly after `MOST_COMPARISONS`."""
    _effort.left = MOST_COMPARISONS
    try:
        yield
    finally:
        _effort.left = float("inf")


def one_turn(function: Callable[[], _T]) -> _T:
    """Call it where others wait meanwhile.

    Raises:
        TakesLong: its rules cost more than `TURN_COST`.
    """
    _effort.in_turn = True
    try:
        return function()
    finally:
        _effort.in_turn = False


def in_turn() -> bool:
    """Whether others wait for the work at hand, so that it may raise TakesLong."""
    return _effort.in_turn


def spend(comparisons: int) -> None:
    """A value is compared with so many schemas."""
    _effort.left -= comparisons
    if _effort.left < 0:
        raise TooCostly


def count_parts(schema: Mapping[str, Any]) -> int:
    """With how many schemas below junctors one value is compared at most."""
    own = sum(_count_below(part) for part in _parts(schema))
    return max([own, *(count_parts(child) for child in _children(schema))])


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
