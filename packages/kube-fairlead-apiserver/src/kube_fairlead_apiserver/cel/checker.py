"""Checks types: sets the type of every node and the possible overloads of every call, or reports errors with positions.

Checking is gradual: a ``dyn`` value is checked when it is evaluated. Messages and positions are cel-go's.

Upstream: github.com/google/cel-go@v0.26.0/checker/checker.go,
    github.com/google/cel-go@v0.26.0/checker/errors.go,
    github.com/google/cel-go@v0.26.0/checker/env.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kube_fairlead_apiserver.cel import declarations, errors, nodes, types, unification, values
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["Scope", "check"]


class Scope:
    """The declared names: variables, type names, functions."""

    def __init__(
        self,
        variables: Mapping[str, CelType],
        type_names: Mapping[str, CelType],
        functions: Mapping[str, declarations.Function],
    ) -> None:
        self.variables = variables
        self.type_names = type_names
        self.functions = functions


def check(root: nodes.Expr, scope: Scope, issues: errors.IssueLog) -> None:
    """Annotate the tree in place."""
    checker = _Checker(scope, issues)
    checker.visit(root)
    checker.settle(root)


class _Checker:
    def __init__(self, scope: Scope, issues: errors.IssueLog) -> None:
        self._scope = scope
        self._issues = issues
        self._locals: list[tuple[str, CelType]] = []
        self._known = unification.Substitutions()

    def settle(self, root: nodes.Expr) -> None:
        """Replace type variables by their types, after the whole tree is checked."""
        pending = [root]
        while pending:
            node = pending.pop()
            node.type = self._known.apply(node.type, to_dyn=True)
            if isinstance(node, nodes.Call):
                node.parameters = tuple(self._known.apply(each, to_dyn=True) for each in node.parameters)
            pending.extend(nodes.children(node))

    def visit(self, node: nodes.Expr) -> CelType:
        match node:
            case nodes.Literal():
                node.type = values.type_of(node.value)
            case nodes.Ident():
                node.type = self._ident(node)
            case nodes.Select():
                node.type = self._select(node)
            case nodes.Call():
                node.type = self._call(node)
            case nodes.ListLiteral():
                node.type = self._list(node)
            case nodes.MapLiteral():
                node.type = self._map(node)
            case nodes.StructLiteral():
                node.type = self._struct(node)
            case nodes.Comprehension():
                node.type = self._comprehension(node)
            case nodes.Bind():
                node.type = self._bind(node)
            case _:
                raise TypeError(f"unknown node {type(node).__name__}")
        return node.type

    # Names.

    def _lookup(self, name: str) -> CelType | None:
        if not name.startswith("."):
            for local, cel_type in reversed(self._locals):
                if local == name:
                    return cel_type
        return self._scope.variables.get(name.removeprefix("."))

    def _names_something(self, qualified: str) -> bool:
        root = qualified.partition(".")[0]
        if any(local == root for local, _ in self._locals):
            return False
        return qualified in self._scope.variables or qualified in self._scope.type_names

    def _ident(self, node: nodes.Ident) -> CelType:
        found = self._lookup(node.name)
        if found is not None:
            return found
        named = self._scope.type_names.get(node.name.removeprefix("."))
        if named is not None:
            node.constant = named
            return types.type_of_type(named)
        self._undeclared(node, node.name)
        return types.ERROR

    def _undeclared(self, node: nodes.Expr, name: str) -> None:
        self._issues.report(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: nodes.Select) -> CelType:
        qualified = nodes.qualified_name(node)
        if qualified is not None and self._names_something(qualified):
            # The dots belong to the name of a variable or type: the planner sees an identifier instead.
            name = nodes.Ident(node.offset, qualified)
            name.type = self._ident(name)
            node.operand, node.field = name, ""
            return name.type
        result = self._field_type(node)
        return types.BOOL if node.test_only else result

    def _field_type(self, node: nodes.Select) -> CelType:
        operand = self._known.apply(self.visit(node.operand))
        target, was_optional = unification.unwrap_optional(operand)
        result = types.ERROR
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif isinstance(target, types.ObjectType):
            field = target.fields.get(node.field)
            if field is not None:
                result = field.type
            else:
                self._issues.report(node.offset, f"undefined field '{node.field}'")
        elif target.kind is Kind.OBJECT:
            self._issues.report(node.offset, f"undefined field '{node.field}'")
        elif target.kind is Kind.PARAMETER:
            self._known.assignable(types.DYN, target)
            result = types.DYN
        else:
            if not unification.is_dynamic(target):
                self._issues.report(node.offset, f"type '{target}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if was_optional or node.optional else result

    # Calls.

    def _call(self, node: nodes.Call) -> CelType:
        for argument in node.args:
            self.visit(argument)
        if node.function in {"_&&_", "_||_"}:
            return self._logic(node)
        if node.target is not None:
            prefix = nodes.qualified_name(node.target)
            if prefix is not None and f"{prefix}.{node.function}" in self._scope.functions:
                node.function = f"{prefix}.{node.function}"
                node.target = None
            else:
                self.visit(node.target)
        found = self._scope.functions.get(node.function.removeprefix("."))
        if found is None:
            self._undeclared(node, node.function)
            return types.ERROR
        node.function = found.name
        return self._resolve(node, found)

    def _logic(self, node: nodes.Call) -> CelType:
        result = types.BOOL
        for term in node.args:
            if not self._known.assignable(term.type, types.BOOL):
                self._mismatch(term, types.BOOL)
                result = types.ERROR
        return result

    def _mismatch(self, node: nodes.Expr, expected: CelType) -> None:
        found = self._known.apply(node.type)
        self._issues.report(node.offset, f"expected type '{expected}' but found '{found}'")

    def _resolve(self, node: nodes.Call, found: declarations.Function) -> CelType:
        arguments = [operand.type for operand in node.operands]
        member = node.target is not None
        result: CelType | None = None
        matching: list[declarations.Overload] = []
        for overload in found.overloads:
            if overload.member is not member or len(overload.parameters) != len(arguments):
                continue
            outcome, *parameters = self._known.instantiate((overload.result, *overload.parameters))
            if not self._known.assignable_all(arguments, parameters):
                continue
            outcome = self._known.apply(outcome)
            if result is None:
                result = outcome
                node.parameters = tuple(parameters)
            elif result.kind is not Kind.DYN and outcome != result:
                result = types.DYN
            matching.append(overload)
        if result is None:
            self._no_overload(node.offset, found.name, arguments, member=member)
            return types.ERROR
        node.overloads = tuple(matching)
        return result

    def _no_overload(self, offset: int, name: str, arguments: Sequence[CelType], *, member: bool) -> None:
        shown = [str(self._known.apply(each, to_dyn=True)) for each in arguments]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        self._issues.report(offset, f"found no matching overload for '{name}' applied to '{signature}'")

    # Literals of aggregates.

    def _list(self, node: nodes.ListLiteral) -> CelType:
        joined: CelType | None = None
        for index, element in enumerate(node.elements):
            element_type = self.visit(element)
            if index in node.optional_indices:
                element_type = self._unwrapped(element, element_type)
            joined = self._join(joined, element_type)
        return types.list_of(joined or self._known.fresh())

    def _map(self, node: nodes.MapLiteral) -> CelType:
        keys: CelType | None = None
        items: CelType | None = None
        for entry in node.entries:
            keys = self._join(keys, self.visit(entry.key))
            value_type = self.visit(entry.value)
            if entry.optional:
                value_type = self._unwrapped(entry.value, value_type)
            items = self._join(items, value_type)
        return types.map_of(keys or self._known.fresh(), items or self._known.fresh())

    def _unwrapped(self, node: nodes.Expr, cel_type: CelType) -> CelType:
        inner, was_optional = unification.unwrap_optional(cel_type)
        if not was_optional and cel_type.kind is not Kind.DYN:
            self._mismatch(node, types.optional_of(cel_type))
        return inner

    def _join(self, previous: CelType | None, current: CelType) -> CelType:
        if previous is None:
            return current
        if self._known.assignable(previous, current):
            return unification.most_general(previous, current)
        return types.DYN

    def _struct(self, node: nodes.StructLiteral) -> CelType:
        self._undeclared(node, node.name)
        for entry in node.entries:
            entry.key.type = types.STRING
            self.visit(entry.value)
        return types.ERROR

    # Scopes.

    def _bind(self, node: nodes.Bind) -> CelType:
        self._locals.append((node.name, self.visit(node.value)))
        result = self.visit(node.body)
        self._locals.pop()
        return result

    def _comprehension(self, node: nodes.Comprehension) -> CelType:
        first, second = self._range_types(node)
        self._locals.append((node.first, first))
        if node.second is not None:
            self._locals.append((node.second, second))
        condition = self.visit(node.condition) if node.condition is not None else types.BOOL
        outcome = self.visit(node.result) if node.result is not None else types.BOOL
        del self._locals[-1 if node.second is None else -2 :]
        fits = self._known.assignable(condition, types.BOOL)
        match node.fold:
            case nodes.Fold.ALL | nodes.Fold.EXISTS:
                if not fits and node.condition is not None:
                    self._mismatch(node.condition, types.BOOL)
                return types.BOOL
            case nodes.Fold.EXISTS_ONE:
                accumulated = types.INT
            case nodes.Fold.MAP:
                accumulated = types.list_of(outcome)
            case nodes.Fold.MAP_ENTRIES:
                accumulated = types.map_of(first, outcome)
            case nodes.Fold.MAP_MERGE:
                accumulated = self._merged(node, outcome)
        if not fits:
            self._no_overload(node.offset, "_?_:_", [condition, accumulated, accumulated], member=False)
        return types.BOOL if node.fold is nodes.Fold.EXISTS_ONE else accumulated

    def _merged(self, node: nodes.Comprehension, outcome: CelType) -> CelType:
        accumulated = types.map_of(self._known.fresh(), self._known.fresh())
        if not self._known.assignable(outcome, accumulated):
            self._no_overload(node.offset, "cel.@mapInsert", [accumulated, outcome], member=False)
        return accumulated

    def _range_types(self, node: nodes.Comprehension) -> tuple[CelType, CelType]:
        """Return the types of the first and the second iteration variable."""
        range_type = self._known.apply(self.visit(node.range))
        if range_type.kind is Kind.LIST:
            element = range_type.parameters[0]
            return (element, types.ERROR) if node.second is None else (types.INT, element)
        if range_type.kind is Kind.MAP:
            return range_type.parameters[0], range_type.parameters[1]
        if unification.is_dynamic(range_type) or range_type.kind is Kind.PARAMETER:
            self._known.assignable(types.DYN, range_type)
            return types.DYN, types.DYN
        text = f"expression of type '{range_type}' cannot be range of a comprehension"
        self._issues.report(node.range.offset, f"{text} (must be list, map, or dynamic)")
        return types.ERROR, types.ERROR
