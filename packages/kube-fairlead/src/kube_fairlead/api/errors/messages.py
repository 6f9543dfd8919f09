"""Errors with Kubernetes' own messages, made from what they are about.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/errors/errors.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/negotiation/errors.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead.api.errors.tree import (
    AlreadyExists,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotSupported,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    UnsupportedMediaType,
)
from kube_fairlead.api.fielderrors import FieldError, aggregate, first_problems
from kube_fairlead.api.gvk import GroupKind, GroupResource

__all__ = [
    "already_exists",
    "apply_conflict",
    "conflict",
    "forbidden",
    "generate_name_conflict",
    "internal_error",
    "invalid",
    "method_not_supported",
    "not_acceptable",
    "not_found",
    "request_entity_too_large",
    "resource_details",
    "server_timeout",
    "timeout",
    "too_many_requests",
    "unsupported_media_type",
]


def resource_details(resource: GroupResource, name: str = "", **more: Any) -> dict[str, Any]:
    """What an error is about; whatever is empty is left out."""
    fields = {"name": name, "group": resource.group, "kind": resource.resource, **more}
    return {key: value for key, value in fields.items() if value}


def not_found(resource: GroupResource, name: str) -> NotFound:
    """No object of this name."""
    return NotFound(f"{resource} {golang.quote(name)} not found", details=resource_details(resource, name))


def already_exists(resource: GroupResource, name: str) -> AlreadyExists:
    """A create for a name that is taken."""
    message = f"{resource} {golang.quote(name)} already exists"
    return AlreadyExists(message, details=resource_details(resource, name))


def generate_name_conflict(resource: GroupResource, name: str, retry_after_seconds: int = 0) -> AlreadyExists:
    """A generated name that is taken."""
    message = (
        f"{resource} {golang.quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = resource_details(resource, name, retryAfterSeconds=retry_after_seconds)
    return AlreadyExists(message, details=details)


def conflict(resource: GroupResource, name: str, error: object) -> Conflict:
    """An update that lost a race or a precondition that does not hold."""
    message = f"Operation cannot be fulfilled on {resource} {golang.quote(name)}: {error}"
    return Conflict(message, details=resource_details(resource, name))


def apply_conflict(causes: Sequence[Mapping[str, Any]], message: str) -> Conflict:
    """A server-side apply that would take fields from other managers."""
    return Conflict(message, details={"causes": list(causes)} if causes else {})


def forbidden(resource: GroupResource, name: str, error: object) -> Forbidden:
    """A request that authorization or admission refuses."""
    if resource.empty:
        message = f"forbidden: {error}"
    elif not name:
        message = f"{resource} is forbidden: {error}"
    else:
        message = f"{resource} {golang.quote(name)} is forbidden: {error}"
    return Forbidden(message, details=resource_details(resource, name))


def invalid(kind: GroupKind, name: str, errors: Iterable[FieldError]) -> Invalid:
    """An object that breaks rules, field by field."""
    all_problems = list(errors)
    problems, left_out = first_problems(all_problems)
    message = f"{kind} {golang.quote(name)} is invalid"
    if problems:
        more = [f"and {left_out} more"] if left_out else []
        message += f": {aggregate([*problems, *more])}"
    causes = [problem.to_cause() for problem in problems]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Invalid(message, details={key: value for key, value in details.items() if value})


def method_not_supported(resource: GroupResource, action: str) -> MethodNotSupported:
    """A verb the resource does not know."""
    message = f"{action} is not supported on resources of kind {golang.quote(str(resource))}"
    return MethodNotSupported(message, details=resource_details(resource))


def not_acceptable(accepted: Iterable[str]) -> NotAcceptable:
    """An Accept header without any media type the server can produce."""
    return NotAcceptable(f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Iterable[str]) -> UnsupportedMediaType:
    """A body in a media type the server cannot read."""
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    )


def request_entity_too_large(message: str) -> RequestEntityTooLarge:
    """A body above the limit."""
    return RequestEntityTooLarge(f"Request entity too large: {message}")


def too_many_requests(
    message: str, retry_after_seconds: int = 0, causes: Sequence[Mapping[str, Any]] = ()
) -> TooManyRequests:
    """Not now, but later; with the causes if a disruption budget says so."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return TooManyRequests(message, details=details)


def internal_error(error: object) -> InternalError:
    """A failure that is the server's own."""
    message = f"Internal error occurred: {error}"
    return InternalError(message, details={"causes": [{"message": str(error)}]})


def server_timeout(resource: GroupResource, operation: str, retry_after_seconds: int = 0) -> ServerTimeout:
    """A transient failure inside the server."""
    message = f"The {operation} operation against {resource} could not be completed at this time, please try again."
    return ServerTimeout(message, details=resource_details(resource, operation, retryAfterSeconds=retry_after_seconds))


def timeout(message: str, retry_after_seconds: int = 0) -> Timeout:
    """A request that ran out of time."""
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    return Timeout(f"Timeout: {message}", details=details)
