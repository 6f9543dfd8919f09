"""Compiled expressions, and the errors of those that do not compile.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/compile.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/composition.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kube_fairlead_apiserver.admission.expressions.environments import variables_type
from kube_fairlead_apiserver.cel import errors, types
from kube_fairlead_apiserver.cel.environment import Environment, Program

__all__ = ["Composer", "Expression", "compile_expression"]

_TYPE_NAMES = {types.NULL: "null_type"}


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """A source and its program, or its error."""

    source: str
    program: Program | None = None
    error: str = ""


def compile_expression(environment: Environment, source: str, *results: types.CelType) -> Expression:
    """Compile an expression; its value must be of one of these types (none given: of any)."""
    try:
        program = environment.compile(source)
    except errors.CompileError as error:
        return Expression(source, error=f"compilation failed: {error}")
    found = program.result_type
    if results and found not in results:
        names = [_TYPE_NAMES.get(one, str(one)) for one in results]
        wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        return Expression(source, error=f"must evaluate to {wanted} but got {_TYPE_NAMES.get(found, str(found))}")
    return Expression(source, program)


class Composer:
    """Compiles expressions that may use variables, which are expressions themselves.

    A variable sees those that were added before it.
    """

    def __init__(self, *environments: Environment) -> None:
        self._environments = environments
        self._types: dict[str, types.CelType] = {}
        self._current = self._compose()
        self.variables: dict[str, Expression] = {}

    def _compose(self) -> list[Environment]:
        composed = variables_type(self._types)
        return [one.extend({"variables": composed}) for one in self._environments]

    def add(self, name: str, source: str) -> Expression:
        """Compile a variable in the first environment, and add it."""
        expression = compile_expression(self._current[0], source)
        self.variables[name] = expression
        kind = types.DYN if expression.program is None else expression.program.result_type
        # The value of a variable is already converted from JSON.
        self._types[name] = kind if kind.adapter is None else kind.with_adapter(None)
        self._current = self._compose()
        return expression

    def compile(self, source: str, *results: types.CelType, environment: int = 0) -> Expression:
        """Compile an expression with all variables added so far, in one of the environments."""
        return compile_expression(self._current[environment], source, *results)

    def compile_all(self, sources: Iterable[str], *results: types.CelType) -> tuple[Expression, ...]:
        """Compile several expressions."""
        return tuple(self.compile(source, *results) for source in sources)
