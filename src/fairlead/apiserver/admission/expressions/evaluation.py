"""Evaluation: the variables of one write, and what expressions say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.apiserver.admission import request
from fairlead.apiserver.admission.expressions.compilation import Expression
from fairlead.apiserver.admission.expressions.environments import NAMESPACE_FIELDS, REQUEST_RESOURCE
from fairlead.apiserver.admission.interface import Operation
from fairlead.apiserver.attributes import Attributes
from fairlead.apiserver.cel import budget, errors
from fairlead.apiserver.cel.library import authorization
from fairlead.apiserver.registry.resource import Resource

__all__ = ["Activation", "Authorize", "ExpressionFailed", "OutOfBudget"]

Json = dict[str, Any]
# As `app.Authorizer.authorize`: None when it is allowed, else the reason why not.
Authorize = Callable[[Attributes], str | None]


class ExpressionFailed(Exception):
    """An expression has no value, or does not compile. Says so as Kubernetes does."""


class OutOfBudget(Exception):
    """The expressions together cost more than they may."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class Activation:
    """The variables of one write, shared by all expressions that are asked about it."""

    def __init__(
        self,
        operation: Operation,
        target: Resource,
        *,
        authorize: Authorize,
        params: Json | None = None,
        namespace: Json | None = None,
        variables: Mapping[str, Expression] | None = None,
    ) -> None:
        asker = authorization.Authorizer(operation.user, _asking(authorize))
        own = operation.resource
        self._bindings: dict[str, Any] = {
            "object": request.shown_object(operation, target),
            "oldObject": request.shown_old_object(operation, target),
            "request": request.describe(operation, target),
            "namespaceObject": None if namespace is None else _shown_namespace(namespace),
            "params": params,
            "authorizer": asker,
            REQUEST_RESOURCE: authorization.ResourceCheck(
                asker, own.group, own.plural, operation.subresource, operation.namespace, operation.name
            ),
            "variables": _Variables(variables or {}, self._variable),
        }
        self._allowance = budget.Budget()

    def spend(self, allowance: budget.Budget) -> None:
        """From here on, evaluation is paid for from this."""
        self._allowance = allowance

    def evaluate(self, expression: Expression) -> Any:
        """The value of an expression.

        Raises:
            ExpressionFailed: it has none.
            OutOfBudget: too much was spent; nothing more should be evaluated.
        """
        if expression.program is None:
            raise ExpressionFailed(f"compilation error: {expression.error}")
        try:
            value = expression.program.evaluate(self._bindings, self._allowance)
        except errors.CelError as error:
            if self._allowance.exhausted:
                raise OutOfBudget from None
            raise ExpressionFailed(f"expression '{expression.source}' resulted in error: {error}") from error
        if self._allowance.exhausted:
            raise OutOfBudget
        return value

    def _variable(self, name: str, expression: Expression) -> Any:
        if expression.program is None:
            raise errors.EvaluationError(f'composited variable "{name}" fails to compile: {expression.error}')
        try:
            return expression.program.evaluate(self._bindings, self._allowance)
        except errors.EvaluationError as error:
            raise errors.EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from error


class _Variables(dict[str, Any]):
    """The composed variables: each is evaluated when it is first read."""

    def __init__(self, compiled: Mapping[str, Expression], evaluate: Callable[[str, Expression], Any]) -> None:
        super().__init__()
        self._compiled = compiled
        self._evaluate = evaluate

    def __contains__(self, name: object) -> bool:
        return name in self._compiled

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._evaluate(name, self._compiled[name])
        return value


def _shown_namespace(namespace: Json) -> Json:
    """A namespace without what expressions have no business with, such as managedFields."""
    metadata = namespace["metadata"]
    shown: Json = {"metadata": {key: metadata[key] for key in NAMESPACE_FIELDS if key in metadata}}
    for part in ("spec", "status"):
        if part in namespace:
            shown[part] = namespace[part]
    return shown


def _asking(authorize: Authorize) -> authorization.Authorize:
    def ask(attributes: Attributes) -> authorization.Decision:
        reason = authorize(attributes)
        return authorization.Decision(allowed=reason is None, reason=reason or "")

    return ask
