"""Macros: calls whose arguments are names and expressions, not values.

The parser expands them, so an iteration variable does not exist outside its loop.

Upstream: github.com/google/cel-go@v0.26.0/parser/macro.go,
    github.com/google/cel-go@v0.26.0/cel/library.go,
    github.com/google/cel-go@v0.26.0/ext/bindings.go,
    github.com/google/cel-go@v0.26.0/ext/comprehensions.go,
    github.com/google/cel-go@v0.26.0/ext/lists.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube_fairlead_apiserver.cel import nodes

__all__ = [
    "ANY_COUNT",
    "BINDINGS",
    "OPTIONAL",
    "SORTING",
    "STANDARD",
    "TWO_VARIABLES",
    "Expander",
    "Key",
    "MacroError",
]


Key = tuple[str, int, bool]  # name, number of arguments, called on a receiver
Expander = Callable[[int, nodes.Expr | None, list[nodes.Expr]], nodes.Expr | None]

ANY_COUNT = -1
_ACCUMULATORS = frozenset({"@result", "__result__"})


class MacroError(ValueError):
    """Raised when a macro's arguments have the wrong form."""

    def __init__(self, argument: nodes.Expr, text: str) -> None:
        super().__init__(text)
        self.offset = argument.offset


def _has(offset: int, _target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
    argument = args[0]
    if not isinstance(argument, nodes.Select) or argument.optional:
        raise MacroError(argument, "invalid argument to has() macro")
    return nodes.Select(offset, argument.operand, argument.field, test_only=True)


def _variable(argument: nodes.Expr, complaint: str) -> str:
    if not isinstance(argument, nodes.Ident):
        raise MacroError(argument, complaint)
    if argument.name in _ACCUMULATORS:
        raise MacroError(argument, "iteration variable overwrites accumulator variable")
    return argument.name


def _variables(first: nodes.Expr, second: nodes.Expr) -> tuple[str, str]:
    for argument in (first, second):
        if not isinstance(argument, nodes.Ident):
            raise MacroError(argument, "argument must be a simple name")
    names = _variable(first, ""), _variable(second, "")
    if names[0] == names[1]:
        raise MacroError(second, f"duplicate variable name: {names[0]}")
    return names


def _receiver(target: nodes.Expr | None) -> nodes.Expr:
    if target is None:
        raise TypeError("a receiver macro was called without its receiver")
    return target


def _quantifier(fold: nodes.Fold) -> Expander:
    def expand(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
        name = _variable(args[0], "argument must be a simple name")
        return nodes.Comprehension(offset, fold, _receiver(target), name, None, args[1], None)

    return expand


def _two_variable_quantifier(fold: nodes.Fold) -> Expander:
    def expand(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
        first, second = _variables(args[0], args[1])
        return nodes.Comprehension(offset, fold, _receiver(target), first, second, args[2], None)

    return expand


def _map(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
    name = _variable(args[0], "argument is not an identifier")
    condition = args[1] if len(args) == 3 else None
    return nodes.Comprehension(offset, nodes.Fold.MAP, _receiver(target), name, None, condition, args[-1])


def _filter(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
    name = _variable(args[0], "argument is not an identifier")
    kept = nodes.Ident(offset, name)
    return nodes.Comprehension(offset, nodes.Fold.MAP, _receiver(target), name, None, args[1], kept)


def _transformation(fold: nodes.Fold) -> Expander:
    def expand(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
        first, second = _variables(args[0], args[1])
        condition = args[2] if len(args) == 4 else None
        return nodes.Comprehension(offset, fold, _receiver(target), first, second, condition, args[-1])

    return expand


_OPTIONAL_INPUT = "@optional_input"  # not valid in source, so it shadows no name of the user


def _optional_mapping(macro: str) -> Expander:
    def expand(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
        variable = args[0]
        if not isinstance(variable, nodes.Ident):
            raise MacroError(variable, f"{macro}() variable name must be a simple identifier")
        receiver = _receiver(target)
        value = nodes.Call(offset, "value", nodes.Ident(receiver.offset, _OPTIONAL_INPUT), [])
        present: nodes.Expr = nodes.Bind(offset, variable.name, value, args[1])
        if macro == "optMap":
            present = nodes.Call(offset, "optional.of", None, [present])
        test = nodes.Call(offset, "hasValue", nodes.Ident(receiver.offset, _OPTIONAL_INPUT), [])
        absent = nodes.Call(offset, "optional.none", None, [])
        choice = nodes.Call(offset, "_?_:_", None, [test, present, absent])
        return nodes.Bind(offset, _OPTIONAL_INPUT, receiver, choice)

    return expand


_SORT_INPUT = "@__sortBy_input__"


def _sort_by(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr:
    receiver = _receiver(target)
    if isinstance(receiver, nodes.Literal | nodes.MapLiteral | nodes.StructLiteral):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(receiver, text)
    keys = _map(offset, nodes.Ident(offset, _SORT_INPUT), args)
    ordered = nodes.Call(offset, "@sortByAssociatedKeys", nodes.Ident(offset, _SORT_INPUT), [keys])
    return nodes.Bind(offset, _SORT_INPUT, receiver, ordered)


def _bind(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr | None:
    if not isinstance(target, nodes.Ident) or target.name != "cel":
        return None
    variable = args[0]
    if not isinstance(variable, nodes.Ident):
        raise MacroError(variable, "cel.bind() variable names must be simple identifiers")
    return nodes.Bind(offset, variable.name, args[1], args[2])


STANDARD: Mapping[Key, Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(nodes.Fold.ALL),
    ("exists", 2, True): _quantifier(nodes.Fold.EXISTS),
    ("exists_one", 2, True): _quantifier(nodes.Fold.EXISTS_ONE),
    ("existsOne", 2, True): _quantifier(nodes.Fold.EXISTS_ONE),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
TWO_VARIABLES: Mapping[Key, Expander] = {
    ("all", 3, True): _two_variable_quantifier(nodes.Fold.ALL),
    ("exists", 3, True): _two_variable_quantifier(nodes.Fold.EXISTS),
    ("exists_one", 3, True): _two_variable_quantifier(nodes.Fold.EXISTS_ONE),
    ("existsOne", 3, True): _two_variable_quantifier(nodes.Fold.EXISTS_ONE),
    **{("transformList", count, True): _transformation(nodes.Fold.MAP) for count in (3, 4)},
    **{("transformMap", count, True): _transformation(nodes.Fold.MAP_ENTRIES) for count in (3, 4)},
    **{("transformMapEntry", count, True): _transformation(nodes.Fold.MAP_MERGE) for count in (3, 4)},
}
OPTIONAL: Mapping[Key, Expander] = {
    ("optMap", 2, True): _optional_mapping("optMap"),
    ("optFlatMap", 2, True): _optional_mapping("optFlatMap"),
}
SORTING: Mapping[Key, Expander] = {("sortBy", 2, True): _sort_by}
BINDINGS: Mapping[Key, Expander] = {("bind", 3, True): _bind}
