"""Estimates the maximum cost of an expression from its text and the schema.

This is cel-go's estimator with Kubernetes' functions. It decides which rules a CRD may have, so its numbers are theirs.
Only the upper bound matters, so a cost is one number. A size is a range, because replacing a short text by a long one
needs both ends.

Upstream: github.com/google/cel-go@v0.26.0/checker/cost.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/library/cost.go
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from kube_fairlead_apiserver.cel import declarations, nodes
from kube_fairlead_apiserver.cel.types import CelType, Kind
from kube_fairlead_apiserver.crd.sizes import DeclType

__all__ = ["COST_MAX", "UNKNOWN", "CallCost", "Estimator", "Size", "add", "multiply", "scale"]

COST_MAX = 2**64 - 1  # means unbounded
_CREATE_LIST, _CREATE_MAP = 10, 30
_REPEATED = "@optional_input"  # the receiver of optMap, which cel-go repeats instead of binding it


def add(left: int, right: int) -> int:
    """Add, up to the bound."""
    return min(left + right, COST_MAX)


def multiply(left: int, right: int) -> int:
    """Multiply, up to the bound."""
    return min(left * right, COST_MAX)


def scale(amount: int, factor: float) -> int:
    """Multiply and round up, up to the bound."""
    return min(math.ceil(float(amount) * factor), COST_MAX) if float(amount) <= COST_MAX / factor else COST_MAX


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The number of characters, bytes, items or entries that a value can have."""

    least: int
    most: int

    def union(self, other: Size) -> Size:
        """Return a range that covers both."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Size) -> Size:
        """Return the range of sums."""
        return Size(add(self.least, other.least), add(self.most, other.most))

    def times(self, other: Size) -> Size:
        """Return the range of products."""
        return Size(multiply(self.least, other.least), multiply(self.most, other.most))


UNKNOWN = Size(0, COST_MAX)
_ONE = Size(1, 1)
# The cost of a call with one overload, given what its arguments cost, and the size of its result if that is known.
CallCost = Callable[["Estimator", nodes.Call, declarations.Overload, Sequence[int]], tuple[int, Size | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of the keys and values (or items) of a container."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclasses.dataclass(frozen=True, slots=True)
class _Local:
    path: tuple[str, ...]
    size: Size | None
    entries: _Entries | None
    cost: int = 1


class Estimator:
    """Walks one expression and notes sizes and paths. The caller provides the costs of calls."""

    def __init__(self, declared: DeclType, call_cost: CallCost) -> None:
        self._declared = declared
        self._call_cost = call_cost
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: list[tuple[str, _Local]] = []

    def cost(self, node: nodes.Expr) -> int:
        """Return the cost of a node and everything in it."""
        match node:
            case nodes.Ident():
                return self._ident(node)
            case nodes.Select():
                return self._select(node)
            case nodes.Call():
                return self._call(node)
            case nodes.ListLiteral():
                return self._list(node)
            case nodes.MapLiteral():
                return self._map(node)
            case nodes.Comprehension():
                return self._comprehension(node)
            case nodes.Bind():
                return self._bind(node)
            case _:
                return 0

    def _ident(self, node: nodes.Ident) -> int:
        local = self._local(node.name)
        self._paths[id(node)] = (node.name,) if local is None else local.path
        return 1 if local is None else local.cost

    def _select(self, node: nodes.Select) -> int:
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if node.optional:
            return add(total, 1)
        if node.operand.type.kind in {Kind.MAP, Kind.OBJECT, Kind.PARAMETER}:
            total = add(total, 1)
        self._paths[id(node)] = (*self.path(node.operand), node.field)
        return total

    def _list(self, node: nodes.ListLiteral) -> int:
        total = _CREATE_LIST
        sizes: list[Size] = []
        for element in node.elements:
            total = add(total, self.cost(element))
            sizes.append(self.size_or_unknown(element))
        self._entries[id(node)] = _Entries(is_list=True, key=_ONE, value=_cover(sizes))
        return total

    def _map(self, node: nodes.MapLiteral) -> int:
        total = _CREATE_MAP
        for entry in node.entries:
            total = add(total, add(self.cost(entry.key), self.cost(entry.value)))
        keys = _cover([self.size_or_unknown(entry.key) for entry in node.entries])
        values = _cover([self.size_or_unknown(entry.value) for entry in node.entries])
        self._entries[id(node)] = _Entries(is_list=False, key=keys, value=values)
        return total

    def _bind(self, node: nodes.Bind) -> int:
        value = self.cost(node.value)
        local = _Local(self.path(node.value), self.size(node.value), self.entries(node.value))
        # cel-go binds through a loop over an empty list, and counts that list.
        total = add(_CREATE_LIST, value)
        if node.name == _REPEATED:
            local, total = dataclasses.replace(local, cost=value), 0
        self._locals.append((node.name, local))
        total = add(total, self.cost(node.body))
        self._copy(node, node.body)
        self._locals.pop()
        return total

    def _comprehension(self, node: nodes.Comprehension) -> int:
        total = self.cost(node.range)
        count = len(self._locals)
        self._push_variables(node)
        step, total_extra, builds = self._step(node)
        del self._locals[count:]
        size = self.size_or_unknown(node.range)
        total = add(add(total, total_extra), multiply(size.most, step))
        self._sizes[id(node)] = size if builds else _ONE
        return total

    def _push_variables(self, node: nodes.Comprehension) -> None:
        path, entries = self.path(node.range), self.entries(node.range)
        is_list = entries.is_list if entries is not None else node.range.type.kind is Kind.LIST
        sizes = (None, None) if entries is None else (entries.key, entries.value)
        key = _Local((*path, "@indices" if is_list else "@keys"), sizes[0], None)
        item = _Local((*path, "@items" if is_list else "@values"), sizes[1], None)
        if node.second is not None:
            self._locals += [(node.first, key), (node.second, item)]
        else:
            self._locals.append((node.first, item if is_list else key))

    def _step(self, node: nodes.Comprehension) -> tuple[int, int, bool]:
        """Return the cost of one iteration, the cost around the loop, and whether it builds a container.

        The numbers are those of the loops that cel-go's macros expand to, reading the accumulator included.
        """
        condition = 0 if node.condition is None else self.cost(node.condition)
        match node.fold:
            case nodes.Fold.ALL:
                return add(condition, 3), 1, False
            case nodes.Fold.EXISTS:
                return add(condition, 4), 1, False
            case nodes.Fold.EXISTS_ONE:
                return add(condition, 2), 2, False
        if node.result is None:
            return condition, 0, False
        result = self.cost(node.result)
        match node.fold:
            case nodes.Fold.MAP:
                item = _Entries(is_list=True, key=_ONE, value=Size(0, self.size_or_unknown(node.result).most))
                self._entries[id(node)] = item
                step, around = add(result, _CREATE_LIST + 2), _CREATE_LIST + 1
            case nodes.Fold.MAP_ENTRIES:
                step, around = add(result, 3), _CREATE_MAP + 1
            case _:
                step, around = add(result, 2), _CREATE_MAP + 1
        return add(condition, step), around, True

    def _call(self, node: nodes.Call) -> int:
        if node.function == "dyn" and node.target is None:
            total = add(1, self.cost(node.args[0]))
            self._copy(node, node.args[0])
            return total
        costs = [self.cost(argument) for argument in node.args]
        if node.function in {"_&&_", "_||_"}:
            self._sizes[id(node)] = _ONE
            return min(sum(costs), COST_MAX)
        receiver = 0 if node.target is None else self.cost(node.target)
        most, result = 0, None
        for overload in node.overloads:
            cost, size = self._call_cost(self, node, overload, costs)
            most = max(most, cost)
            if size is not None:
                result = size if result is None else result.union(size)
            if node.function == "_[_]":
                is_list = overload.parameters[0].kind is Kind.LIST
                entries = self.entries(node.args[0])
                result = None if entries is None else entries.value
                self._paths[id(node)] = (*self.path(node.args[0]), "@items" if is_list else "@values")
            result = result or self.size(node)
        if result is not None:
            self._sizes[id(node)] = result
        return add(receiver, most)

    def _copy(self, target: nodes.Expr, source: nodes.Expr) -> None:
        if (size := self.size(source)) is not None:
            self._sizes[id(target)] = size
        if (entries := self.entries(source)) is not None:
            self._entries[id(target)] = entries

    def note_entries(self, node: nodes.Expr, first: nodes.Expr, second: nodes.Expr) -> None:
        """Note that the result of combining two containers has the entries of either."""
        entries = self.entries(first)
        joint = None if entries is None else entries.union(self.entries(second))
        if joint is not None:
            self._entries[id(node)] = joint

    def path(self, node: nodes.Expr) -> tuple[str, ...]:
        """Return the path from a variable to a node's value; empty where there is none."""
        if isinstance(node, nodes.Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(id(node), ())

    def entries(self, node: nodes.Expr) -> _Entries | None:
        """Return the sizes of a container's elements, where the expression itself determines them."""
        known = self._entries.get(id(node))
        if known is None and isinstance(node, nodes.Ident) and (local := self._local(node.name)) is not None:
            return local.entries
        return known

    def size(self, node: nodes.Expr) -> Size | None:
        """Return the size of a value, None if it is unknown."""
        known = self._sizes.get(id(node)) or _literal_size(node) or self.size_at(self.path(node))
        if known is not None:
            return known
        if _is_scalar(node.type):
            return _ONE
        if isinstance(node, nodes.Ident) and (local := self._local(node.name)) is not None:
            return local.size
        return None

    def size_or_unknown(self, node: nodes.Expr) -> Size:
        """Return the size of a value; unbounded if it is unknown."""
        return self.size(node) or UNKNOWN

    def size_at(self, path: Sequence[str]) -> Size | None:
        """Return the size that the schema gives a path; every variable has the same root."""
        if not path:
            return None
        declared = self._declared.at(path[1:])
        return None if declared is None else Size(0, declared.elements_max)

    def _local(self, name: str) -> _Local | None:
        return next((local for known, local in reversed(self._locals) if known == name), None)


def _cover(sizes: Sequence[Size]) -> Size:
    if not sizes:
        return Size(0, 0)
    return Size(min(size.least for size in sizes), max(size.most for size in sizes))


def _literal_size(node: nodes.Expr) -> Size | None:
    match node:
        case nodes.Literal(value=str() | bytes() as text):
            return Size(len(text), len(text))
        case nodes.Literal():
            return _ONE
        case nodes.ListLiteral():
            return Size(len(node.elements), len(node.elements))
        case nodes.MapLiteral():
            return Size(len(node.entries), len(node.entries))
        case _:
            return None


def _is_scalar(kind: CelType) -> bool:
    if kind.kind is Kind.TIME:
        return True
    if kind.kind is Kind.OPAQUE and kind.name == "optional_type":
        return _is_scalar(kind.parameters[0])
    return kind.kind is Kind.PRIMITIVE and kind.name not in {"string", "bytes"}
