"""The syntax tree. The parser builds it, the checker annotates it, the planner compiles it to closures.

Macros are expanded into ``Comprehension``, ``Bind`` and presence tests by the parser, so later steps never see them as
calls. ``offset`` is the position of an issue about the node, chosen as in cel-go: the operator of an operation, the
opening bracket of a call, the dot of a selection.

Upstream: github.com/google/cel-go@v0.26.0/common/ast/expr.go
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_fairlead_apiserver.cel import declarations, types

__all__ = [
    "Bind",
    "Call",
    "Comprehension",
    "Entry",
    "Expr",
    "Fold",
    "Ident",
    "ListLiteral",
    "Literal",
    "MapLiteral",
    "Select",
    "StructLiteral",
    "children",
    "qualified_name",
]


@dataclasses.dataclass(slots=True, eq=False)
class Expr:
    """Any node. ``type`` is unset until the checker sets it."""

    offset: int
    type: types.CelType = dataclasses.field(init=False, repr=False)


@dataclasses.dataclass(slots=True, eq=False)
class Literal(Expr):
    """A constant scalar; its Python type determines its CEL type (Uint for uint)."""

    value: Any


@dataclasses.dataclass(slots=True, eq=False)
class Ident(Expr):
    """A variable or type name; ``constant`` is set by the checker when it names a type."""

    name: str
    constant: Any = dataclasses.field(default=None, init=False)


@dataclasses.dataclass(slots=True, eq=False)
class Select(Expr):
    """``operand.field``, ``operand.?field`` (optional) or ``has(operand.field)`` (test_only)."""

    operand: Expr
    field: str
    test_only: bool = False
    optional: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Call(Expr):
    """A function, method or operator applied to arguments."""

    function: str
    target: Expr | None
    args: list[Expr]
    # Set by the checker: the overloads that the static types allow.
    overloads: tuple[declarations.Overload, ...] = dataclasses.field(default=(), init=False, repr=False)
    parameters: tuple[types.CelType, ...] = dataclasses.field(default=(), init=False, repr=False)

    @property
    def operands(self) -> list[Expr]:
        """The receiver, if any, then the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclasses.dataclass(slots=True, eq=False)
class ListLiteral(Expr):
    """``[a, ?b]``."""

    elements: list[Expr]
    optional_indices: frozenset[int] = frozenset()


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map or message literal; ``key`` is an Expr for maps."""

    offset: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class MapLiteral(Expr):
    """``{k: v, ?o: w}``."""

    entries: list[Entry]


@dataclasses.dataclass(slots=True, eq=False)
class StructLiteral(Expr):
    """``Name{field: value}``. No Kubernetes type can be built this way, so the checker always rejects it."""

    name: str
    entries: list[Entry]


class Fold(enum.Enum):
    """The operation of a comprehension on its elements."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    MAP = "map"  # a list of transformed elements; also filter() and transformList()
    MAP_ENTRIES = "transformMap"  # a map: key unchanged, value transformed
    MAP_MERGE = "transformMapEntry"  # a map: each step gives a map to merge


@dataclasses.dataclass(slots=True, eq=False)
class Comprehension(Expr):
    """A loop over a list or map. ``second`` names the value (or element) in the two-variable forms."""

    fold: Fold
    range: Expr
    first: str
    second: str | None
    condition: Expr | None  # the predicate, or the filter of a mapping form
    result: Expr | None  # the transformation; None for the predicates


@dataclasses.dataclass(slots=True, eq=False)
class Bind(Expr):
    """A name for a value inside ``body``: for optMap, sortBy and cel.bind."""

    name: str
    value: Expr
    body: Expr


def children(node: Expr) -> list[Expr]:
    """Return the direct children in source order."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [entry.value for entry in node.entries]
        case Comprehension():
            return [part for part in (node.range, node.condition, node.result) if part is not None]
        case Bind():
            return [node.value, node.body]
        case _:
            return []


def qualified_name(node: Expr) -> str | None:
    """Return ``a.b.c`` as text when the node consists of names only."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.optional and not node.test_only:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None
