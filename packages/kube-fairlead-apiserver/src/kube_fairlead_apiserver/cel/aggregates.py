"""Plans list and map literals.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/interpretable.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.cel import errors, nodes, steps, types, values
from kube_fairlead_apiserver.cel.logic import as_dynamic
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Step

__all__ = ["LIST_COST", "MAP_COST", "list_literal", "map_literal"]

LIST_COST = 10
MAP_COST = 30
_KEY_TYPES = (str, int, float)


def list_literal(planner: Planner, node: nodes.ListLiteral) -> Step:
    """Plan ``[a, ?b]``; a literal of constants is built once."""
    element_type = node.type.parameters[0]
    planned = [as_dynamic(planner.step(element), element, element_type) for element in node.elements]
    if not node.optional_indices:
        if all(step.is_constant for step in planned):
            return steps.constant([step.value for step in planned])
        runs = [step.run for step in planned]
        cost = LIST_COST + sum(step.cost for step in planned)
        return Step(lambda frame: [run(frame) for run in runs], cost)
    parts = [(step.run, index in node.optional_indices) for index, step in enumerate(planned)]

    def run(frame: Frame) -> list[Any]:
        elements: list[Any] = []
        for part, optional in parts:
            value = part(frame)
            if not optional:
                elements.append(value)
            elif not isinstance(value, values.Optional):
                raise _not_optional(value, "element")
            elif value is not values.NONE:
                elements.append(value.value)
        return elements

    return Step(run, LIST_COST + sum(step.cost for step in planned))


def map_literal(planner: Planner, node: nodes.MapLiteral) -> Step:
    """Plan ``{a: b, ?c: d}``."""
    value_type = node.type.parameters[1]
    planned = [
        (planner.step(entry.key), _entry_value(planner, entry, value_type), entry.optional) for entry in node.entries
    ]
    parts = [(key.run, value.run, optional) for key, value, optional in planned]

    def run(frame: Frame) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_run, value_run, optional in parts:
            key = _checked_key(key_run(frame))
            value = value_run(frame)
            if not optional:
                mapping[key] = value
            elif not isinstance(value, values.Optional):
                raise _not_optional(value, "entry")
            elif value is not values.NONE:
                mapping[key] = value.value
        return mapping

    if all(key.is_constant and value.is_constant and not optional for key, value, optional in planned):
        try:
            return steps.constant(run([]))
        except errors.EvaluationError:
            pass  # reported by the evaluation
    return Step(run, MAP_COST + sum(key.cost + value.cost for key, value, _ in planned))


def _entry_value(planner: Planner, entry: nodes.Entry, value_type: types.CelType) -> Step:
    step = planner.step(entry.value)
    return step if entry.optional else as_dynamic(step, entry.value, value_type)


def _checked_key(key: Any) -> Any:
    if isinstance(key, bool):
        return values.BoolKey(key)
    if isinstance(key, _KEY_TYPES):
        return key
    raise errors.EvaluationError(f"unsupported key type: {values.type_of(key)}")


def _not_optional(value: Any, what: str) -> errors.EvaluationError:
    return errors.EvaluationError(f"cannot initialize optional {what} from non-optional value {value}")
