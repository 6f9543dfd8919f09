"""The entry point: declare variables, compile a source, evaluate the program.

Upstream: github.com/google/cel-go@v0.26.0/cel/env.go,
    github.com/google/cel-go@v0.26.0/cel/program.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/environment/base.go,
    github.com/google/cel-go@v0.26.0/interpreter/attributes.go
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from kube_fairlead_apiserver.cel import (
    budget,
    checker,
    declarations,
    errors,
    library,
    macros,
    nodes,
    parser,
    planner,
    types,
    validators,
    values,
)

__all__ = ["Environment", "Program"]


class Environment:
    """Variables and libraries for compilation. Immutable; any number of sources can be compiled."""

    def __init__(
        self,
        variables: Mapping[str, types.CelType] | None = None,
        *,
        libraries: Sequence[declarations.Library] = library.KUBERNETES,
        backtick_identifiers: bool = False,
    ) -> None:
        self._variables = dict(variables or {})
        self._libraries = tuple(libraries)
        self._backticks = backtick_identifiers
        self._vocabulary = _vocabulary(self._libraries)

    def extend(self, variables: Mapping[str, types.CelType]) -> Environment:
        """Return a copy with more variables; a variable replaces an earlier one of the same name."""
        return Environment(
            {**self._variables, **variables}, libraries=self._libraries, backtick_identifiers=self._backticks
        )

    def check(self, source: str) -> nodes.Expr:
        """Parse and check only. Returns the typed tree, which cost estimates walk. Raises like `compile`."""
        try:
            root = parser.parse(source, self._vocabulary.macros, backtick_identifiers=self._backticks)
            issues = errors.IssueLog(source)
            scope = checker.Scope(self._variables, self._vocabulary.types, self._vocabulary.functions)
            checker.check(root, scope, issues)
            issues.raise_if_any()
            validators.validate(root, issues)
            issues.raise_if_any()
        except RecursionError:
            raise parser.too_deep() from None
        return root

    def compile(self, source: str) -> Program:
        """Parse, check and plan. A CompileError has every issue."""
        root = self.check(source)
        try:
            return Program(source, root.type, planner.plan(root), self._variables)
        except RecursionError:
            raise parser.too_deep() from None


class Program:
    """A compiled expression. It has no state and can be evaluated any number of times."""

    __slots__ = ("_inputs", "_plan", "_template", "result_type", "source")

    def __init__(
        self,
        source: str,
        result_type: types.CelType,
        plan: planner.Plan,
        variables: Mapping[str, types.CelType],
    ) -> None:
        self.source = source
        self.result_type = result_type
        self._plan = plan
        self._template: list[Any] = [None] * plan.slots
        self._inputs = [(name, slot, variables[name].adapter) for name, slot in plan.inputs.items()]

    def __repr__(self) -> str:
        return f"<Program {self.source!r} -> {self.result_type}>"

    @property
    def variables(self) -> frozenset[str]:
        """The variables that evaluation reads: a rule that reads oldSelf is a transition rule."""
        return frozenset(self._plan.inputs)

    def evaluate(self, bindings: Mapping[str, Any], allowance: budget.Budget | None = None) -> Any:
        """Evaluate with these variables; returns plain Python values.

        JSON is bound as it is. Raises EvaluationError when there is no value, CostExceeded when it costs too much.
        """
        limit = budget.PER_CALL_COST_MAX
        if allowance is not None:
            limit = min(allowance.per_call, allowance.remaining)
        frame = self._template.copy()
        frame[0] = limit - self._plan.cost
        for name, slot, adapter in self._inputs:
            if name not in bindings:
                raise errors.EvaluationError(f"no such attribute(s): {name}")
            value = bindings[name]
            frame[slot] = value if adapter is None else adapter(value)
        try:
            value = self._plan.run(frame)
        except RecursionError:
            raise errors.EvaluationError("expression nested too deeply") from None
        except (AttributeError, TypeError) as error:
            # Typed code relies on the schema; null in a list of ints, or data older than its schema, violates it.
            raise errors.EvaluationError(f"invalid data, not of the type its schema says: {error}") from error
        finally:
            if allowance is not None:
                allowance.remaining -= limit - frame[0]
        if frame[0] < 0:
            raise errors.CostExceeded
        return value if value is True or value is False else values.plain(value)


class _DeclarationSet:
    """All declarations of some libraries, combined once."""

    def __init__(self, libraries: Sequence[declarations.Library]) -> None:
        self.functions = declarations.combine(libraries)
        self.macros: dict[macros.Key, macros.Expander] = {}
        self.types: dict[str, types.CelType] = {}
        for each in libraries:
            self.macros.update(each.macros)
            self.types.update(each.types)


@functools.lru_cache(maxsize=16)
def _vocabulary(libraries: tuple[declarations.Library, ...]) -> _DeclarationSet:
    return _DeclarationSet(libraries)
