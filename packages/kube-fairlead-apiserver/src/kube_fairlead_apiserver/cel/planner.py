"""Compiles a checked tree to closures.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/planner.go
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from kube_fairlead_apiserver.cel import aggregates, calls, comparison, field_access, logic, loops, nodes, steps
from kube_fairlead_apiserver.cel.steps import Step

__all__ = ["Plan", "plan"]

_FIRST_SLOT = 1  # slot zero is the budget


class Plan:
    """A planned expression: its step, the variables that it reads and the number of its slots."""

    def __init__(self, step: Step, inputs: dict[str, int], slots: int) -> None:
        self.run = step.run
        self.cost = step.cost
        self.inputs = inputs
        self.slots = slots


def plan(root: nodes.Expr) -> Plan:
    """Plan a checked expression."""
    planner = _Planner()
    step = planner.step(root)
    return Plan(step, planner.inputs, planner.slots)


class _Planner:
    def __init__(self) -> None:
        self._locals: dict[str, list[int]] = {}
        self.inputs: dict[str, int] = {}
        self.slots = _FIRST_SLOT

    def bind(self, name: str) -> int:
        slot = self._new_slot()
        self._locals.setdefault(name, []).append(slot)
        return slot

    def release(self, name: str) -> None:
        self._locals[name].pop()

    def _new_slot(self) -> int:
        slot = self.slots
        self.slots += 1
        return slot

    def step(self, node: nodes.Expr) -> Step:
        match node:
            case nodes.Literal():
                return steps.constant(node.value)
            case nodes.Ident():
                return self._ident(node)
            case nodes.Select():
                if isinstance(node.operand, nodes.Ident) and not node.field:
                    return self._ident(node.operand)
                return field_access.select(self, node)
            case nodes.Call():
                return self._call(node)
            case nodes.ListLiteral():
                return aggregates.list_literal(self, node)
            case nodes.MapLiteral():
                return aggregates.map_literal(self, node)
            case nodes.Comprehension():
                return loops.comprehension(self, node)
            case nodes.Bind():
                return loops.bind(self, node)
            case _:
                raise TypeError(f"{type(node).__name__} cannot be planned")

    def _ident(self, node: nodes.Ident) -> Step:
        if node.constant is not None:
            return steps.constant(node.constant)
        slot = self._slot_of(node.name)
        return Step(operator.itemgetter(slot), 1, slot=slot)

    def _slot_of(self, name: str) -> int:
        slots = self._locals.get(name)
        if slots:
            return slots[-1]
        name = name.removeprefix(".")
        if name not in self.inputs:
            self.inputs[name] = self._new_slot()
        return self.inputs[name]

    def _call(self, node: nodes.Call) -> Step:
        special = _SPECIAL.get(node.function)
        return special(self, node) if special is not None else calls.call(self, node)


_SPECIAL: dict[str, Callable[[steps.Planner, nodes.Call], Step]] = {
    "_&&_": logic.conjunction,
    "_||_": logic.disjunction,
    "_?_:_": logic.conditional,
    "!_": logic.negation,
    "_[_]": field_access.index,
    "_[?_]": field_access.optional_index,
    "_==_": comparison.equal,
    "_!=_": comparison.not_equal,
    "_<_": comparison.ordering,
    "_<=_": comparison.ordering,
    "_>_": comparison.ordering,
    "_>=_": comparison.ordering,
    "@in": comparison.containment,
    "or": field_access.optional_or,
    "orValue": field_access.optional_or_value,
}
