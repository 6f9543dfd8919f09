"""Calls the authorizer: ``authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()``.

The caller binds a callable to the ``authorizer`` variable, which decides. Selectors are accepted, as in Kubernetes, but
the authorizer does not get them: RBAC cannot use them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/authz.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/library/cost.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kube_fairlead.api import names
from kube_fairlead_apiserver.cel import errors, values
from kube_fairlead_apiserver.cel.declarations import Library, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, STRING, CelType, Kind

__all__ = [
    "AUTHORIZATION",
    "AUTHORIZER",
    "RESOURCE_CHECK",
    "AccessCheck",
    "Authorize",
    "Authorizer",
    "Decision",
    "ResourceCheck",
    "ServiceAccount",
]

AUTHORIZER = CelType(Kind.OBJECT, "kubernetes.authorization.Authorizer")
RESOURCE_CHECK = CelType(Kind.OBJECT, "kubernetes.authorization.ResourceCheck")
_PATH_CHECK = CelType(Kind.OBJECT, "kubernetes.authorization.PathCheck")
_GROUP_CHECK = CelType(Kind.OBJECT, "kubernetes.authorization.GroupCheck")
_DECISION = CelType(Kind.OBJECT, "kubernetes.authorization.Decision")
_CHECK_COST = 350_000  # two checks per evaluation, not three


@dataclasses.dataclass(frozen=True, slots=True)
class _Value(values.Opaque):
    """Base class of this library's values."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision(_Value):
    """The decision of an authorizer. ``error`` is set when it could not decide."""

    allowed: bool
    reason: str = ""
    error: str = ""

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # the same for all, but a dataclass would make it a field
        """The type in expressions."""
        return _DECISION


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account of ``authorizer.serviceAccount``."""

    namespace: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class AccessCheck:
    """One access check: for a resource, or for a path."""

    user: Any  # the user of the `Authorizer`, or a ServiceAccount
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""  # empty for a bare path
    subresource: str = ""
    namespace: str = ""
    name: str = ""


Authorize = Callable[[AccessCheck], Decision]


@dataclasses.dataclass(frozen=True, slots=True)
class Authorizer(_Value):
    """The value of the ``authorizer`` variable: the user, and the callable that decides."""

    user: Any  # expressions do not look into it
    authorize: Authorize

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # as above
        """The type in expressions."""
        return AUTHORIZER


@dataclasses.dataclass(frozen=True, slots=True)
class _PathCheck(_Value):
    authorizer: Authorizer
    path: str

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # as above
        return _PATH_CHECK


@dataclasses.dataclass(frozen=True, slots=True)
class _GroupCheck(_Value):
    authorizer: Authorizer
    group: str

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # as above
        return _GROUP_CHECK


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceCheck(_Value):
    """An access check for a resource; ``authorizer.requestResource`` is bound to that of the request's resource."""

    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # as above
        """The type in expressions."""
        return RESOURCE_CHECK


def _path(authorizer: Authorizer, path: str) -> _PathCheck:
    if not path.strip():
        raise errors.EvaluationError("path must not be empty")
    return _PathCheck(authorizer, path)


def _resource(check: _GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise errors.EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.name_is_dns_subdomain(name):
        raise errors.EvaluationError("Invalid service account name")
    if names.name_is_dns_label(namespace):
        raise errors.EvaluationError("Invalid service account namespace")
    return dataclasses.replace(authorizer, user=ServiceAccount(namespace, name))


def _check_path(check: _PathCheck, verb: str) -> Decision:
    return check.authorizer.authorize(AccessCheck(check.authorizer.user, verb, check.path))


def _check_resource(check: ResourceCheck, verb: str) -> Decision:
    request = AccessCheck(
        user=check.authorizer.user,
        verb=verb,
        group=check.group,
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
    )
    return check.authorizer.authorize(request)


def _check_cost(_arguments: tuple[Any, ...]) -> int:
    return _CHECK_COST


def _with(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrow(check: ResourceCheck, value: str) -> ResourceCheck:
        changes: dict[str, Any] = {field: value}
        return dataclasses.replace(check, **changes)

    return narrow


AUTHORIZATION = Library(
    "kubernetes.authz",
    overloads=(
        member("path", (AUTHORIZER, STRING), _PATH_CHECK, _path),
        member("group", (AUTHORIZER, STRING), _GROUP_CHECK, _GroupCheck),
        member("serviceAccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
        member("resource", (_GROUP_CHECK, STRING), RESOURCE_CHECK, _resource),
        member("subresource", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("subresource")),
        member("namespace", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("namespace")),
        member("name", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("name")),
        member("fieldSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("field_selector"), costs.selector),
        member("labelSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("label_selector"), costs.selector),
        member("check", (_PATH_CHECK, STRING), _DECISION, _check_path, _check_cost),
        member("check", (RESOURCE_CHECK, STRING), _DECISION, _check_resource, _check_cost),
        member("allowed", (_DECISION,), BOOL, lambda decision: decision.allowed),
        member("reason", (_DECISION,), STRING, lambda decision: decision.reason),
        member("errored", (_DECISION,), BOOL, lambda decision: bool(decision.error)),
        member("error", (_DECISION,), STRING, lambda decision: decision.error),
    ),
)
