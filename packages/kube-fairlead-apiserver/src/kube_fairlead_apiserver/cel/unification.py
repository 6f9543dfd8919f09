"""Decides which types fit: assignability with type variables, as in cel-go.

``dyn`` fits every type and every type fits ``dyn``. A type variable is bound to the first type that it meets, and may
widen to a more general one later.

Upstream: github.com/google/cel-go@v0.26.0/checker/types.go,
    github.com/google/cel-go@v0.26.0/checker/mapping.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead_apiserver.cel import types
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["Substitutions", "is_dynamic", "most_general", "unwrap_optional"]

_NULLABLE = frozenset({Kind.OPAQUE, Kind.OBJECT, Kind.TIME})
_PARAMETERIZED = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP, Kind.TYPE})


def is_dynamic(cel_type: CelType) -> bool:
    """Return whether values of this type are unknown (or an error is already reported)."""
    return cel_type.kind is Kind.DYN or cel_type.kind is Kind.ERROR


def unwrap_optional(cel_type: CelType) -> tuple[CelType, bool]:
    """Return the type inside an optional, and whether it was one."""
    if cel_type.kind is Kind.OPAQUE and cel_type.name == "optional_type":
        return cel_type.parameters[0], True
    return cel_type, False


def most_general(first: CelType, second: CelType) -> CelType:
    """Return the less specific of two types that fit each other."""
    return first if _at_most_as_specific(first, second) else second


def _at_most_as_specific(first: CelType, second: CelType) -> bool:
    if first.kind is Kind.DYN or first.kind is Kind.PARAMETER:
        return True
    if second.kind is Kind.DYN or second.kind is Kind.PARAMETER or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    if first.kind in _PARAMETERIZED:
        return (
            first.name == second.name
            and len(first.parameters) == len(second.parameters)
            and all(map(_at_most_as_specific, first.parameters, second.parameters))
        )
    return first == second


class Substitutions:
    """The bindings of the type variables of one expression."""

    def __init__(self) -> None:
        self._bound: dict[CelType, CelType] = {}
        self._fresh = 0

    def fresh(self) -> CelType:
        """Return a new type variable."""
        variable = types.parameter(f"_var{self._fresh}")
        self._fresh += 1
        return variable

    def assignable(self, target: CelType, source: CelType) -> bool:
        """Return whether the two fit; new bindings are kept only if they do."""
        return self.assignable_all((target,), (source,))

    def assignable_all(self, targets: Sequence[CelType], sources: Sequence[CelType]) -> bool:
        """Return whether whole argument lists fit."""
        if len(targets) != len(sources):
            return False
        before = self._bound
        self._bound = dict(before)
        if all(map(self._fits, targets, sources)):
            return True
        self._bound = before
        return False

    def apply(self, cel_type: CelType, *, to_dyn: bool = False) -> CelType:
        """Return the type with its variables replaced; unbound ones become ``dyn`` on request."""
        bound = self._bound.get(cel_type)
        if bound is not None:
            return self.apply(bound, to_dyn=to_dyn)
        if cel_type.kind is Kind.PARAMETER:
            return types.DYN if to_dyn else cel_type
        if cel_type.kind not in _PARAMETERIZED or not cel_type.parameters:
            return cel_type
        parameters = tuple(self.apply(each, to_dyn=to_dyn) for each in cel_type.parameters)
        if parameters == cel_type.parameters:
            return cel_type
        return CelType(cel_type.kind, cel_type.name, parameters)

    def instantiate(self, signature: Sequence[CelType]) -> list[CelType]:
        """Return a signature with new variables for its own."""
        fresh: dict[CelType, CelType] = {}

        def renew(cel_type: CelType) -> CelType:
            if cel_type.kind is Kind.PARAMETER:
                if cel_type not in fresh:
                    fresh[cel_type] = self.fresh()
                return fresh[cel_type]
            if not cel_type.parameters:
                return cel_type
            return CelType(cel_type.kind, cel_type.name, tuple(map(renew, cel_type.parameters)))

        return [renew(each) for each in signature]

    def _fits(self, first: CelType, second: CelType) -> bool:
        if second.kind is Kind.PARAMETER:
            valid, known = self._substitutes(first, second)
            if valid:
                return True
            if known:
                return False
        if first.kind is Kind.PARAMETER:
            return self._substitutes(second, first)[0]
        if is_dynamic(first) or is_dynamic(second):
            return True
        if first.kind is Kind.NULL or second.kind is Kind.NULL:
            other = second if first.kind is Kind.NULL else first
            return other.kind is Kind.NULL or other.kind in _NULLABLE
        if first.kind is Kind.TYPE:
            return second.kind is Kind.TYPE
        if first.kind in _PARAMETERIZED:
            return (
                first.kind is second.kind
                and first.name == second.name
                and len(first.parameters) == len(second.parameters)
                and all(map(self._fits, first.parameters, second.parameters))
            )
        return first == second

    def _substitutes(self, candidate: CelType, variable: CelType) -> tuple[bool, bool]:
        """Return whether candidate can be bound to the variable, and whether the variable was already bound."""
        if candidate == variable:
            return True, True
        current = self._bound.get(variable)
        if current is not None:
            if candidate == current:
                return True, True
            if self._fits(candidate, current):
                wider = most_general(candidate, current)
                if not self._occurs(variable, wider):
                    self._bound[variable] = wider
                return True, True
            return False, True
        if self._occurs(variable, candidate):
            return False, False
        self._bound[variable] = candidate
        return True, False

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable == within:
            return True
        if within.kind is Kind.PARAMETER:
            bound = self._bound.get(within)
            return bound is not None and self._occurs(variable, bound)
        return any(self._occurs(variable, each) for each in within.parameters)
