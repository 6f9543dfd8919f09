"""Plans calls of library functions: a direct call when static types determine the overload, else a dispatch on values.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/interpretable.go,
    github.com/google/cel-go@v0.26.0/common/decls/decls.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kube_fairlead_apiserver.cel import declarations, errors, nodes, steps, types, values
from kube_fairlead_apiserver.cel.logic import as_dynamic
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Run, Step
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["call"]

_Guard = Callable[[Any], bool]
_FOLDING_COST_MAX = 1000
# Conversions of constants are evaluated once, before any cost is charged.
_FREE_WHEN_CONSTANT = frozenset({
    *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
})  # fmt: skip
# In cel-go these functions check their own arguments, and their errors have few details.
_TERSE = frozenset({"contains", "endsWith", "matches", "startsWith"})


def call(planner: Planner, node: nodes.Call) -> Step:
    """Plan a call of a declared function."""
    planned = [
        as_dynamic(planner.step(operand), operand, parameter)
        for operand, parameter in zip(node.operands, node.parameters, strict=True)
    ]
    argument_types = [operand.type for operand in node.operands]
    arguments_cost = sum(step.cost for step in planned)
    if len(node.overloads) == 1 and not _needs_guards(node.overloads[0].parameters, argument_types):
        overload = node.overloads[0]
        compute = overload.compute
        if overload.specialize is not None:
            compute = overload.specialize(planned) or compute
        runs = [step.run for step in planned]
        if overload.cost is None:
            step = Step(_direct(compute, runs), arguments_cost + 1)
        else:
            step = Step(_costed(compute, overload.cost, runs), arguments_cost)
    else:
        step = Step(_dispatched(node, [step.run for step in planned]), arguments_cost)
    if planned and all(each.is_constant for each in planned):
        return _folded(step, free=node.function in _FREE_WHEN_CONSTANT)
    return step


def _folded(step: Step, *, free: bool) -> Step:
    """Evaluate a call of constants now, if that is cheap. A call that fails is planned, and fails when it runs."""
    frame: Frame = [_FOLDING_COST_MAX]
    try:
        value = step.run(frame)
    except (errors.EvaluationError, errors.CostExceeded):
        return step
    return steps.constant(value, 0 if free else step.cost + _FOLDING_COST_MAX - frame[0])


def _direct(compute: Callable[..., Any], runs: list[Run]) -> Run:
    match runs:
        case []:
            return lambda _frame: compute()
        case [only]:
            return lambda frame: compute(only(frame))
        case [first, second]:
            return lambda frame: compute(first(frame), second(frame))
        case _:
            return lambda frame: compute(*[run(frame) for run in runs])


def _costed(compute: Callable[..., Any], cost: declarations.Cost, runs: list[Run]) -> Run:
    def run_pair(frame: Frame) -> Any:
        first, second = first_run(frame), second_run(frame)
        left = frame[0] = frame[0] - cost((first, second))
        if left < 0:
            raise errors.CostExceeded
        return compute(first, second)

    def run_many(frame: Frame) -> Any:
        arguments = tuple([run(frame) for run in runs])
        steps.charge(frame, cost(arguments))
        return compute(*arguments)

    if len(runs) == 2:
        first_run, second_run = runs
        return run_pair
    return run_many


def _dispatched(node: nodes.Call, runs: list[Run]) -> Run:
    """Choose the overload by the values."""
    table = [
        ([_guard(parameter) for parameter in overload.parameters], overload.compute, overload.cost)
        for overload in node.overloads
    ]
    quiet = not node.function[0].isalpha() or node.function in _TERSE

    def run(frame: Frame) -> Any:
        arguments = tuple([run(frame) for run in runs])
        for guards, compute, cost in table:
            if all(fits is None or fits(value) for fits, value in zip(guards, arguments, strict=True)):
                steps.charge(frame, 1 if cost is None else cost(arguments))
                return compute(*arguments)
        if quiet:
            raise steps.no_such_overload()
        shown = ", ".join(values.type_of(argument).name for argument in arguments)
        raise errors.EvaluationError(f"no such overload: {node.function}({shown})")

    return run


def _needs_guards(parameters: Sequence[CelType], arguments: Sequence[CelType]) -> bool:
    return any(map(_may_differ, parameters, arguments))


def _may_differ(parameter: CelType, argument: CelType) -> bool:
    """Return whether a value of the argument's type may not be of the parameter's type."""
    if parameter.kind is Kind.DYN or parameter.kind is Kind.PARAMETER:
        return False
    if argument.kind is not parameter.kind:
        return True  # dyn, or null in place of an object
    return any(map(_may_differ, parameter.parameters, argument.parameters))


_CLASSES: dict[CelType, frozenset[type]] = {
    types.BOOL: frozenset({bool}),
    types.INT: frozenset({int}),
    types.UINT: frozenset({values.Uint}),
    types.DOUBLE: frozenset({float}),
    types.STRING: frozenset({str}),
    types.BYTES: frozenset({bytes}),
    types.NULL: frozenset({type(None)}),
    types.TIMESTAMP: frozenset({values.Timestamp}),
    types.DURATION: frozenset({values.Duration}),
}


def _guard(parameter: CelType) -> _Guard | None:
    """Return a test whether a value has this type; None when every value has."""
    if parameter.kind is Kind.DYN or parameter.kind is Kind.PARAMETER:
        return None
    classes = _CLASSES.get(parameter)
    if classes is not None:
        return lambda value: type(value) in classes
    if parameter.kind is Kind.LIST:
        return _list_guard(_guard(parameter.parameters[0]))
    if parameter.kind is Kind.MAP:
        return lambda value: isinstance(value, dict)
    if parameter.kind is Kind.TYPE:
        return lambda value: isinstance(value, CelType)
    if parameter.name == "optional_type":
        return lambda value: isinstance(value, values.Optional)
    name = parameter.name
    return lambda value: isinstance(value, values.Opaque) and value.cel_type.name == name


def _list_guard(element: _Guard | None) -> _Guard:
    if element is None:
        return lambda value: isinstance(value, list)
    return lambda value: isinstance(value, list) and all(map(element, value))
