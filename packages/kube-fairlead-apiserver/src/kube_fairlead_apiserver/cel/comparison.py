"""Plans ``==``, ``!=``, ordering and ``in``, as direct as the static types allow.

Upstream: github.com/google/cel-go@v0.26.0/common/types/compare.go,
    github.com/google/cel-go@v0.26.0/interpreter/runtimecost.go
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.cel import equality, nodes, steps, types, values
from kube_fairlead_apiserver.cel.logic import as_dynamic
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Run, Step
from kube_fairlead_apiserver.cel.types import Kind

__all__ = ["containment", "equal", "not_equal", "ordering"]

# Types whose values Python compares as CEL does, given that both sides have the same one.
_DIRECT = frozenset({types.BOOL, types.INT, types.UINT, types.STRING, types.BYTES, types.TIMESTAMP, types.DURATION})
_SIZED = frozenset({types.STRING, types.BYTES})
_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_SCALARS = frozenset({bool, int, str, type(None)})
_UNIT_CHARACTERS = 10  # elements compared for one unit of cost


def equal(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a == b``."""
    return _equality(planner, node, negated=False)


def not_equal(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a != b``."""
    return _equality(planner, node, negated=True)


def _equality(planner: Planner, node: nodes.Call, *, negated: bool) -> Step:
    left_node, right_node = node.args
    left, right = planner.step(left_node), planner.step(right_node)
    cost = left.cost + right.cost + 1
    if left_node.type == right_node.type and left_node.type in _DIRECT:
        return Step(_direct_equality(left, right, left_node.type, negated=negated), cost)
    if types.DYN in {left_node.type, right_node.type}:
        left = as_dynamic(left, left_node, right_node.type)
        right = as_dynamic(right, right_node, left_node.type)
        same: equality.Equality = equality.equals
    else:
        same = equality.equality_for(left_node.type) or equality.equals
    if right.is_constant and type(right.value) in _SCALARS and values.size(right.value) <= _UNIT_CHARACTERS:
        return Step(_equality_to_scalar(left.run, right.value, negated=negated), cost)
    run_left, run_right = left.run, right.run

    def run(frame: Frame) -> bool:
        first, second = run_left(frame), run_right(frame)
        if type(first) is str and type(second) is str and len(first) <= _UNIT_CHARACTERS:
            return (first == second) is not negated
        extra = min(values.size(first), values.size(second)) // _UNIT_CHARACTERS
        if extra:
            steps.charge(frame, extra)
        return same(first, second) is not negated

    return Step(run, cost)


def _equality_to_scalar(run_left: Run, constant: Any, *, negated: bool) -> Run:
    """Compare a value of unknown type with a short constant, the usual test in policies."""
    constant_class = type(constant)

    def run(frame: Frame) -> bool:
        value = run_left(frame)
        if type(value) is constant_class:
            return bool(value == constant) is not negated
        return equality.equals(value, constant) is not negated

    return run


def _direct_equality(left: Step, right: Step, cel_type: types.CelType, *, negated: bool) -> Run:
    compare = operator.ne if negated else operator.eq
    run_left, run_right = left.run, right.run
    if left.is_constant and not right.is_constant:
        left, right, run_left, run_right = right, left, run_right, run_left
    short = cel_type not in _SIZED
    if right.is_constant:
        value = right.value
        if short or len(value) <= _UNIT_CHARACTERS:
            if negated:
                return lambda frame: run_left(frame) != value
            return lambda frame: run_left(frame) == value
    if short:
        return lambda frame: compare(run_left(frame), run_right(frame))

    def run(frame: Frame) -> bool:
        first, second = run_left(frame), run_right(frame)
        if len(first) > _UNIT_CHARACTERS:
            steps.charge(frame, min(len(first), len(second)) // _UNIT_CHARACTERS)
        return bool(compare(first, second))

    return run


def ordering(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a < b``, ``a <= b``, ``a > b`` and ``a >= b``."""
    left_node, right_node = node.args
    left, right = planner.step(left_node), planner.step(right_node)
    cost = left.cost + right.cost + 1
    run_left, run_right = left.run, right.run
    holds = _ORDERINGS[node.function]
    if left_node.type == right_node.type and left_node.type in _DIRECT:
        if right.is_constant and left_node.type not in _SIZED:
            value = right.value
            return Step(lambda frame: holds(run_left(frame), value), cost)

        def run_direct(frame: Frame) -> bool:
            first, second = run_left(frame), run_right(frame)
            if left_node.type in _SIZED and len(first) > _UNIT_CHARACTERS:
                steps.charge(frame, min(len(first), len(second)) // _UNIT_CHARACTERS)
            return holds(first, second)

        return Step(run_direct, cost)

    def run(frame: Frame) -> bool:
        first, second = run_left(frame), run_right(frame)
        if type(first) is int and type(second) is int:
            return holds(first, second)
        return holds(equality.compare(first, second), 0)

    return Step(run, cost)


def containment(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a in b``."""
    element_node, container_node = node.args
    element, container = planner.step(element_node), planner.step(container_node)
    cost = element.cost + container.cost
    run_element, run_container = element.run, container.run
    container_type = container_node.type
    if container_type.kind is Kind.LIST:
        same_type = container_type.parameters[0] == element_node.type
        direct = same_type and element_node.type in _DIRECT
        if container.is_constant and direct:
            members = frozenset(container.value)
            return Step(lambda frame: run_element(frame) in members, cost)
        same = None if direct else (equality.equality_for(element_node.type) or equality.equals)

        def run_list(frame: Frame) -> bool:
            value, elements = run_element(frame), run_container(frame)
            steps.charge(frame, len(elements))
            if same is None:
                return value in elements
            return any(same(each, value) for each in elements)

        return Step(run_list, cost)
    if container_type.kind is Kind.MAP and element_node.type == types.STRING:
        return Step(lambda frame: run_element(frame) in run_container(frame), cost + 1)
    return Step(lambda frame: _contains(frame, run_element(frame), run_container(frame)), cost + 1)


def _contains(frame: Frame, value: Any, container: Any) -> bool:
    if isinstance(container, list):
        steps.charge(frame, len(container))
        if type(value) is str:
            return value in container  # a string equals only strings, in Python too
        return any(equality.equals(each, value) for each in container)
    if isinstance(container, dict):
        try:
            return (values.BoolKey(value) if isinstance(value, bool) else value) in container
        except TypeError:  # a value that cannot be a key is in no map
            return False
    raise steps.no_such_overload()
