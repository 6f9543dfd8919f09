"""Plans field access: ``a.b``, ``has(a.b)``, ``a.?b``, ``a[b]``, ``a[?b]``, ``or`` and ``orValue``.

A path such as ``self.spec.replicas`` is one step that subscripts JSON directly. Only when that fails is the path walked
again, to report the missing part.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/attributes.go,
    github.com/google/cel-go@v0.26.0/common/types/optional.go,
    github.com/google/cel-go@v0.26.0/common/types/map.go,
    github.com/google/cel-go@v0.26.0/common/types/list.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/valuesunstructured.go
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead_apiserver.cel import errors, nodes, steps, types, unification, values
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Run, Step
from kube_fairlead_apiserver.cel.types import Kind

__all__ = ["index", "index_value", "optional_index", "optional_or", "optional_or_value", "select"]

_MISSING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class _Hop:
    """One selection: the key in JSON, the name in the expression, and the treatment of null and of JSON."""

    key: str
    name: str
    is_object: bool  # null means absent
    adapter: types.Adapter | None


def _hop(node: nodes.Select) -> _Hop:
    target, _ = unification.unwrap_optional(node.operand.type)
    if isinstance(target, types.ObjectType):
        field = target.fields[node.field]
        return _Hop(field.json_name, node.field, is_object=True, adapter=field.type.adapter)
    return _Hop(node.field, node.field, is_object=False, adapter=None)


def select(planner: Planner, node: nodes.Select) -> Step:
    """Plan any form of field selection."""
    _, operand_optional = unification.unwrap_optional(node.operand.type)
    if node.test_only:
        return _presence(planner, node)
    if node.optional or operand_optional:
        return _optional_select(planner, node)
    hops = [_hop(node)]
    root: nodes.Expr = node.operand
    while isinstance(root, nodes.Select) and not root.test_only and not root.optional and root.field:
        hop = _hop(root)
        if hop.adapter is not None or unification.unwrap_optional(root.operand.type)[1]:
            break
        hops.append(hop)
        root = root.operand
    hops.reverse()
    base = planner.step(root)
    return Step(_path(base, hops), base.cost + len(hops))


def _path(base: Step, hops: list[_Hop]) -> Run:
    last = hops[-1]
    keys = [hop.key for hop in hops]
    if base.slot is not None and len(keys) <= 3 and last.adapter is None:
        return _short_path(base.slot, hops)
    root = base.run
    adapter = last.adapter

    def run(frame: Frame) -> Any:
        value = start = root(frame)
        try:
            for key in keys:
                value = value[key]
        except (KeyError, TypeError, IndexError):
            value = _walk(start, hops)
        if value is None and last.is_object:
            raise _no_such_key(last.name)
        return value if adapter is None else adapter(value)

    return run


def _short_path(slot: int, hops: list[_Hop]) -> Run:
    """Plan the common paths without a loop: a variable and up to three keys."""
    last = hops[-1]
    null_is_absent = last.is_object
    first = hops[0].key
    second = hops[1].key if len(hops) > 1 else ""
    third = last.key

    def one(frame: Frame) -> Any:
        try:
            value = frame[slot][first]
        except (KeyError, TypeError, IndexError):
            value = _walk(frame[slot], hops)
        if value is None and null_is_absent:
            raise _no_such_key(last.name)
        return value

    def two(frame: Frame) -> Any:
        try:
            value = frame[slot][first][second]
        except (KeyError, TypeError, IndexError):
            value = _walk(frame[slot], hops)
        if value is None and null_is_absent:
            raise _no_such_key(last.name)
        return value

    def three(frame: Frame) -> Any:
        try:
            value = frame[slot][first][second][third]
        except (KeyError, TypeError, IndexError):
            value = _walk(frame[slot], hops)
        if value is None and null_is_absent:
            raise _no_such_key(last.name)
        return value

    return (one, two, three)[len(hops) - 1]


def _walk(value: Any, hops: list[_Hop]) -> Any:
    """Walk a path slowly: return the value (through an optional on the path) or report the missing part."""
    for hop in hops:
        found = _field(value, hop.key)
        if found is _MISSING or (found is None and hop.is_object):
            raise _no_such_key(hop.name)
        value = found
    return value


def _field(value: Any, key: str) -> Any:
    """Return a field of a value of unknown type, or _MISSING."""
    if isinstance(value, dict):
        try:
            return value[key]  # not get(): a caller's mapping may compute its items on access
        except KeyError:
            return _MISSING
    if isinstance(value, values.Optional):
        found = _MISSING if value is values.NONE else _field(value.value, key)
        return values.NONE if found is _MISSING else values.Optional(found)
    if isinstance(value, list):
        raise errors.EvaluationError("unsupported index type 'string' in list")
    return _MISSING


def _no_such_key(key: object) -> errors.EvaluationError:
    return errors.EvaluationError(f"no such key: {_shown(key)}")


def _shown(key: object) -> str:
    if isinstance(key, float):
        return golang.print_float(key)
    return str(key).lower() if isinstance(key, bool) else str(key)


def _presence(planner: Planner, node: nodes.Select) -> Step:
    """Plan ``has(a.b)``; it costs only what its operand costs."""
    hop = _hop(node)
    operand = planner.step(node.operand)
    inner, key, is_object = operand.run, hop.key, hop.is_object

    def run(frame: Frame) -> bool:
        value = inner(frame)
        if type(value) is dict:
            return key in value and (not is_object or value[key] is not None)
        if isinstance(value, dict):
            return key in value
        if isinstance(value, values.Optional):
            value = None if value is values.NONE else value.value
        found = _field(value, key)
        return found is not _MISSING and not (is_object and found is None)

    return Step(run, operand.cost)


def _optional_select(planner: Planner, node: nodes.Select) -> Step:
    hop = _hop(node)
    operand = planner.step(node.operand)
    inner, key, adapter = operand.run, hop.key, hop.adapter

    def run(frame: Frame) -> values.Optional:
        value = inner(frame)
        if isinstance(value, values.Optional):
            if value is values.NONE:
                return value
            value = value.value
        found = _field(value, key)
        if found is _MISSING or (found is None and hop.is_object):
            return values.NONE
        return values.Optional(found if adapter is None else adapter(found))

    return Step(run, operand.cost + 1)


# Indexing.


def index(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a[b]``."""
    container, key = planner.step(node.args[0]), planner.step(node.args[1])
    container_type, key_type = (argument.type for argument in node.args)
    cost = container.cost + key.cost + 1
    inner, key_run = container.run, key.run
    if container_type.kind is Kind.LIST and key_type == types.INT:

        def run_list(frame: Frame) -> Any:
            elements = inner(frame)
            position = key_run(frame)
            if position >= 0:
                try:
                    return elements[position]
                except IndexError:
                    pass
            raise errors.EvaluationError(f"index out of bounds: {position}")

        return Step(run_list, cost)
    if container_type.kind is Kind.MAP and key_type == types.STRING:

        def run_map(frame: Frame) -> Any:
            mapping = inner(frame)
            name = key_run(frame)
            try:
                return mapping[name]
            except KeyError:
                raise _no_such_key(name) from None

        return Step(run_map, cost)
    return Step(lambda frame: index_value(inner(frame), key_run(frame)), cost)


def index_value(container: Any, key: Any) -> Any:
    """Evaluate ``container[key]`` for values of unknown types."""
    if isinstance(container, values.Optional):
        return _optional_element(container, key)
    found = _element(container, key)
    if found is not _MISSING:
        return found
    if isinstance(container, list):
        raise errors.EvaluationError(f"index out of bounds: {_shown(key)}")
    raise _no_such_key(key)


def _element(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        if isinstance(key, bool):
            key = values.BoolKey(key)
        try:
            return container[key]
        except (KeyError, TypeError):
            return _MISSING
    if isinstance(container, list):
        position = _position(key)
        return container[position] if 0 <= position < len(container) else _MISSING
    return _MISSING


def _position(key: Any) -> int:
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key)
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise errors.EvaluationError(f"unsupported index value {key} in list")
    raise errors.EvaluationError(f"unsupported index type '{values.type_of(key)}' in list")


def _optional_element(container: Any, key: Any) -> values.Optional:
    if isinstance(container, values.Optional):
        if container is values.NONE:
            return values.NONE
        container = container.value
    found = _element(container, key)
    return values.NONE if found is _MISSING else values.Optional(found)


def optional_index(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a[?b]``."""
    container, key = planner.step(node.args[0]), planner.step(node.args[1])
    inner, key_run = container.run, key.run
    return Step(lambda frame: _optional_element(inner(frame), key_run(frame)), container.cost + key.cost + 1)


def optional_or(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a.or(b)``: the other optional is evaluated only when the first has no value."""
    return _fallback(planner, node, unwrap=False)


def optional_or_value(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a.orValue(b)``."""
    return _fallback(planner, node, unwrap=True)


def _fallback(planner: Planner, node: nodes.Call, *, unwrap: bool) -> Step:
    first, second = (planner.step(operand) for operand in node.operands)
    inner, other, other_cost = first.run, second.run, second.cost

    def run(frame: Frame) -> Any:
        value = inner(frame)
        if not isinstance(value, values.Optional):
            raise steps.no_such_overload()
        if value is not values.NONE:
            return value.value if unwrap else value
        frame[0] -= other_cost
        return other(frame)

    return Step(run, first.cost)
