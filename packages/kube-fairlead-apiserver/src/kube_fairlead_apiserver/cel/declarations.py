"""Declarations of a library: functions with overloads, names of types, macros.

An overload is a signature, a Python function, and a cost. ``cost`` gets the arguments and is charged before the call;
without one a call costs one unit.

Upstream: github.com/google/cel-go@v0.26.0/common/decls/decls.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kube_fairlead_apiserver.cel import macros
from kube_fairlead_apiserver.cel.types import CelType

__all__ = ["Cost", "Function", "Library", "Overload", "PlannedArgument", "Specialize", "combine", "function", "member"]

Cost = Callable[[tuple[Any, ...]], int]


class PlannedArgument(Protocol):
    """What the specialisation of a call may know of an argument."""

    is_constant: bool
    value: Any


Specialize = Callable[[Sequence[PlannedArgument]], Callable[..., Any] | None]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function. A member's first parameter is its receiver."""

    name: str
    parameters: tuple[CelType, ...]
    result: CelType
    compute: Callable[..., Any]
    member: bool = False
    cost: Cost | None = None
    # From the planned arguments: a cheaper function of them (with a compiled pattern), or None.
    specialize: Specialize | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A name and its overloads, in the order in which they are tried."""

    name: str
    overloads: tuple[Overload, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A named set of declarations."""

    name: str
    overloads: tuple[Overload, ...] = ()
    macros: Mapping[macros.Key, macros.Expander] = dataclasses.field(default_factory=dict)
    types: Mapping[str, CelType] = dataclasses.field(default_factory=dict)


def function(
    name: str, parameters: Iterable[CelType], result: CelType, compute: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    """Declare a global function: ``name(a, b)``."""
    return Overload(name, tuple(parameters), result, compute, member=False, cost=cost)


def member(
    name: str, parameters: Iterable[CelType], result: CelType, compute: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    """Declare a receiver function: ``a.name(b)``."""
    return Overload(name, tuple(parameters), result, compute, member=True, cost=cost)


def combine(libraries: Iterable[Library]) -> dict[str, Function]:
    """Return all functions of some libraries, with the overloads of one name together."""
    overloads: dict[str, list[Overload]] = {}
    for library in libraries:
        for overload in library.overloads:
            overloads.setdefault(overload.name, []).append(overload)
    return {name: Function(name, tuple(each)) for name, each in overloads.items()}
