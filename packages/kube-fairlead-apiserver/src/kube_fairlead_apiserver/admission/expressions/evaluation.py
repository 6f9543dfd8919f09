"""Evaluation of expressions with the variables of one write.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/activation.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/condition.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/composition.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission import request
from kube_fairlead_apiserver.admission.expressions.compilation import Expression
from kube_fairlead_apiserver.admission.expressions.environments import NAMESPACE_FIELDS, REQUEST_RESOURCE
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.cel import budget, errors
from kube_fairlead_apiserver.cel.library import authorization
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["Activation", "Authorize", "ExpressionFailed", "OutOfBudget"]

# As `app.Authorizer.authorize`: None when it is allowed, else the reason why not.
Authorize = Callable[[Attributes], str | None]


class ExpressionFailed(Exception):
    """An expression has no value, or does not compile. The message is Kubernetes' own."""


class OutOfBudget(Exception):
    """The expressions together exceed the cost limit."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class Activation:
    """The variables of one write, shared by all expressions.

    Each is created when an expression first reads it; most expressions read few.
    """

    def __init__(
        self,
        operation: Operation,
        target: Resource,
        *,
        authorize: Authorize,
        params: Json | None = None,
        namespace: Callable[[], Json | None] = lambda: None,
        variables: Mapping[str, Expression] | None = None,
    ) -> None:
        self._bindings = _Bindings(
            {
                "object": lambda: request.shown_object(operation, target),
                "oldObject": lambda: request.shown_old_object(operation, target),
                "request": lambda: request.describe(operation, target),
                "namespaceObject": lambda: _shown_namespace(namespace()),
                "params": lambda: params,
                "authorizer": lambda: authorization.Authorizer(operation.user, _asking(authorize)),
                REQUEST_RESOURCE: lambda: _own_resource(operation, self._bindings["authorizer"]),
                "variables": lambda: _Variables(variables or {}, self._variable),
            }
        )
        self._allowance = budget.Budget()

    def spend(self, allowance: budget.Budget) -> None:
        """Charge later evaluations to this budget."""
        self._allowance = allowance

    def evaluate(self, expression: Expression) -> Any:
        """The value of an expression.

        Raises:
            ExpressionFailed: it has none.
            OutOfBudget: the cost limit is exceeded; stop evaluating.
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


class _Bindings(dict[str, Any]):
    """Variables by name, created at their first use."""

    def __init__(self, make: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__()
        self._make = make

    def __contains__(self, name: object) -> bool:
        return name in self._make

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._make[name]()
        return value


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


def _own_resource(operation: Operation, asker: authorization.Authorizer) -> authorization.ResourceCheck:
    own = operation.resource
    return authorization.ResourceCheck(
        asker, own.group, own.plural, operation.subresource, operation.namespace, operation.name
    )


def _shown_namespace(namespace: Json | None) -> Json | None:
    """Return a namespace without fields that expressions do not see, such as managedFields."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    shown: Json = {"metadata": {key: metadata[key] for key in NAMESPACE_FIELDS if key in metadata}}
    for part in ("spec", "status"):
        if part in namespace:
            shown[part] = namespace[part]
    return shown


def _asking(authorize: Authorize) -> authorization.Authorize:
    def ask(check: authorization.AccessCheck) -> authorization.Decision:
        reason = authorize(_attributes(check))
        return authorization.Decision(allowed=reason is None, reason=reason or "")

    return ask


def _attributes(check: authorization.AccessCheck) -> Attributes:
    user = _service_account(check.user) if isinstance(check.user, authorization.ServiceAccount) else check.user
    if not check.resource:
        return Attributes(user, check.verb, check.path, is_resource=False)
    return Attributes(
        user=user,
        verb=check.verb,
        path="",
        resource=check.resource,
        group=check.group,
        version="*",
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
    )


def _service_account(account: authorization.ServiceAccount) -> UserInfo:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{account.namespace}:{account.name}", groups=groups)
