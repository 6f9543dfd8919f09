"""Plans comprehensions and local names.

Each iteration is charged before it runs, so a loop over a huge list stops as soon as the budget is spent. The constants
are the costs of cel-go's own expansion of each macro.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/interpretable.go,
    github.com/google/cel-go@v0.26.0/interpreter/runtimecost.go,
    github.com/google/cel-go@v0.26.0/parser/macro.go,
    github.com/google/cel-go@v0.26.0/common/types/map.go,
    github.com/google/cel-go@v0.26.0/ext/comprehensions.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kube_fairlead_apiserver.cel import aggregates, errors, nodes, steps, values
from kube_fairlead_apiserver.cel.logic import as_dynamic
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Run, Step
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["bind", "comprehension"]

_RESULT_COST = 1
_ALL_COST = 3
_EXISTS_COST = 4
_APPEND_COST = aggregates.LIST_COST + 2
_INSERT_COST = 3
_MERGE_COST = 2
_COUNT_COST = 2

_GO_TYPES = {"bool": "Bool", "int": "Int", "float": "Double", "str": "String", "bytes": "Bytes", "NoneType": "Null"}

_Items = Callable[[Any], Iterable[Any]]


def bind(planner: Planner, node: nodes.Bind) -> Step:
    """Plan a local name for a value."""
    value = planner.step(node.value)
    slot = planner.bind(node.name)
    body = planner.step(node.body)
    planner.release(node.name)
    run_value, run_body = value.run, body.run

    def run(frame: Frame) -> Any:
        frame[slot] = run_value(frame)
        return run_body(frame)

    return Step(run, value.cost + body.cost)


def comprehension(planner: Planner, node: nodes.Comprehension) -> Step:
    """Plan any loop."""
    source = planner.step(node.range)
    first = planner.bind(node.first)
    second = planner.bind(node.second) if node.second is not None else None
    condition = planner.step(node.condition) if node.condition is not None else None
    result = planner.step(node.result) if node.result is not None else None
    if result is not None and node.result is not None:
        result = as_dynamic(result, node.result, node.type.parameters[-1])
    planner.release(node.first)
    if node.second is not None:
        planner.release(node.second)
    loop = _Loop(source.run, _items(node.range.type, pairs=second is not None), first, second)
    if condition is not None and result is None:
        match node.fold:
            case nodes.Fold.ALL:
                run = _quantified(loop, condition, _ALL_COST, deciding=False)
            case nodes.Fold.EXISTS:
                run = _quantified(loop, condition, _EXISTS_COST, deciding=True)
            case _:
                run = _exactly_one(loop, condition)
    elif result is not None and node.fold is nodes.Fold.MAP:
        run = _mapped(loop, condition, result)
    elif result is not None:
        run = _gathered(loop, condition, result, merge=node.fold is nodes.Fold.MAP_MERGE)
    else:
        raise TypeError(f"{node.fold} without what it folds")
    return Step(run, source.cost + _RESULT_COST)


class _Loop:
    """The source of the elements, and the slots that hold them."""

    __slots__ = ("first", "items", "second", "source")

    def __init__(self, source: Run, items: _Items, first: int, second: int | None) -> None:
        self.source = source
        self.items = items
        self.first = first
        self.second = second


def _items(range_type: CelType, *, pairs: bool) -> _Items:
    if pairs:
        return _pairs
    if range_type.kind is Kind.LIST:
        return _as_is
    return _elements


def _as_is(value: list[Any]) -> list[Any]:
    return value


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return values.map_keys(value)
    raise errors.EvaluationError(f"got '{_go_type(value)}', expected iterable type")


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return zip(values.map_keys(value), value.values(), strict=True)
    raise errors.EvaluationError(f"unsupported comprehension range type: {_go_type(value)}")


def _go_type(value: Any) -> str:
    """Return the name of a value's class in cel-go's message."""
    if isinstance(value, values.Optional):
        return "*types.Optional"
    name = type(value).__name__
    return f"types.{_GO_TYPES.get(name, name)}"


def _quantified(loop: _Loop, condition: Step, overhead: int, *, deciding: bool) -> Run:
    """Plan all() and exists(): as in a chain of ``&&`` or ``||``, a deciding element hides errors of the others."""
    source, items, first, second = loop.source, loop.items, loop.first, loop.second
    test = condition.run
    cost = overhead + condition.cost
    other = not deciding

    def run(frame: Frame) -> bool:
        failure: str | None = None
        for item in items(source(frame)):
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            left = frame[0] = frame[0] - cost
            if left < 0:
                raise errors.CostExceeded
            try:
                value: object = test(frame)
            except errors.EvaluationError as error:
                failure = failure or str(error)
                continue
            if value is deciding:
                frame[0] -= overhead - 1  # the check for the end of the loop
                return deciding
            if value is not other:
                failure = failure or "no such overload"
        if failure is not None:
            raise errors.EvaluationError(failure)
        return other

    return run


def _exactly_one(loop: _Loop, condition: Step) -> Run:
    source, items, first, second = loop.source, loop.items, loop.first, loop.second
    test, cost = condition.run, condition.cost

    def run(frame: Frame) -> bool:
        count = 0
        for item in items(source(frame)):
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            left = frame[0] = frame[0] - cost
            if left < 0:
                raise errors.CostExceeded
            value = test(frame)
            if value is True:
                frame[0] -= _COUNT_COST
                count += 1
            elif value is not False:
                raise steps.no_such_overload()
        frame[0] -= _RESULT_COST  # comparing the count to one
        return count == 1

    return run


def _mapped(loop: _Loop, condition: Step | None, result: Step) -> Run:
    kept = _kept(loop, condition)
    transform = result.run
    cost = _APPEND_COST + result.cost

    def run(frame: Frame) -> list[Any]:
        elements: list[Any] = []
        for _ in kept(frame):
            left = frame[0] = frame[0] - cost
            if left < 0:
                raise errors.CostExceeded
            elements.append(transform(frame))
        return elements

    return run


def _gathered(loop: _Loop, condition: Step | None, result: Step, *, merge: bool) -> Run:
    """Plan transformMap() and transformMapEntry()."""
    kept = _kept(loop, condition)
    transform, key_slot = result.run, loop.first
    cost = (_MERGE_COST if merge else _INSERT_COST) + result.cost

    def run(frame: Frame) -> dict[Any, Any]:
        gathered: dict[Any, Any] = {}
        for _ in kept(frame):
            steps.charge(frame, cost)
            value = transform(frame)
            entries = value if merge else {frame[key_slot]: value}
            if not isinstance(entries, dict):
                raise steps.no_such_overload()
            for key, item in entries.items():
                if isinstance(key, bool):
                    key = values.BoolKey(key)  # noqa: PLW2901 -- the same key in its stored form
                if key in gathered:
                    raise errors.EvaluationError(f"insert failed: key {key} already exists")
                gathered[key] = item
        return gathered

    return run


def _kept(loop: _Loop, condition: Step | None) -> Callable[[Frame], Iterable[None]]:
    """Iterate over the elements that satisfy the condition, each in its slots while the loop's body runs."""
    source, items, first, second = loop.source, loop.items, loop.first, loop.second

    def every(frame: Frame) -> Iterable[None]:
        for item in items(source(frame)):
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            yield None

    if condition is None:
        return every
    test, cost = condition.run, condition.cost

    def filtered(frame: Frame) -> Iterable[None]:
        for item in items(source(frame)):
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            left = frame[0] = frame[0] - cost
            if left < 0:
                raise errors.CostExceeded
            value = test(frame)
            if value is True:
                yield None
            elif value is not False:
                raise steps.no_such_overload()

    return filtered
