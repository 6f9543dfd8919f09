"""The tree of API errors, raised by the server and decoded by the client.

    ApiError
    +-- BadRequest               400
    +-- Unauthorized             401
    +-- Forbidden                403
    +-- NotFound                 404
    +-- MethodNotSupported       405
    +-- NotAcceptable            406
    +-- AlreadyExists            409
    +-- Conflict                 409
    +-- Expired                  410
    +-- RequestEntityTooLarge    413
    +-- UnsupportedMediaType     415
    +-- Invalid                  422
    +-- TooManyRequests          429
    +-- InternalError            500
    +-- ServerTimeout            500   transient: try again
    +-- ServiceUnavailable       503
    +-- Timeout                  504   the operation may still complete

A class is chosen by the Status' reason, else by its code; `code` and `reason` always say what the server said. Every
class takes a message as it is; the functions build Kubernetes' own messages: `raise errors.not_found(resource, name)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.api import golang
from fairlead.api.fielderrors import FieldError, aggregate
from fairlead.api.gvk import GroupKind, GroupResource

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "InternalError",
    "Invalid",
    "MethodNotSupported",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
    "already_exists",
    "apply_conflict",
    "conflict",
    "forbidden",
    "from_response",
    "from_status",
    "generate_name_conflict",
    "internal_error",
    "invalid",
    "method_not_supported",
    "not_acceptable",
    "not_found",
    "request_entity_too_large",
    "server_timeout",
    "timeout",
    "too_many_requests",
    "unsupported_media_type",
]

NO_RESOURCE = GroupResource("", "")


class ApiError(Exception):
    """An answer that is not a success. Raised itself only for a code and reason that no subclass names."""

    code: int = 500
    reason: str = ""

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
        list_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        # ListMeta of the Status: an expired page says here how to go on.
        self.list_metadata: Mapping[str, Any] = list_metadata or {}
        self.message = message
        self.details: dict[str, Any] | None = None if details is None else dict(details)
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    def __str__(self) -> str:
        return self.message

    @property
    def causes(self) -> Sequence[Mapping[str, Any]]:
        """The single causes, each with `reason`, `message` and `field` as far as given."""
        return (self.details or {}).get("causes") or ()

    @property
    def retry_after_seconds(self) -> int:
        """How long the server asks to wait; 0 when it does not say."""
        return (self.details or {}).get("retryAfterSeconds") or 0

    def has_cause(self, reason: str) -> bool:
        """Whether one of the causes has this reason, such as `DisruptionBudget`."""
        return any(cause.get("reason") == reason for cause in self.causes)

    def to_status(self) -> dict[str, Any]:
        """The Status object that goes over the wire, its fields in Kubernetes' order."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.list_metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class BadRequest(ApiError):
    """The request itself makes no sense."""

    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    """The caller is not known."""

    code = 401
    reason = "Unauthorized"

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message or "not authorized", **fields)


class Forbidden(ApiError):
    """The caller may not do this."""

    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    """The object or resource does not exist."""

    code = 404
    reason = "NotFound"


class MethodNotSupported(ApiError):
    """The resource exists but does not know this verb."""

    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    """None of the media types the caller accepts can be produced."""

    code = 406
    reason = "NotAcceptable"


class AlreadyExists(ApiError):
    """An object of this name is there already."""

    code = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    """The object changed in between, or a precondition does not hold."""

    code = 409
    reason = "Conflict"


class Expired(ApiError):
    """The resource version or continue token is too old: list again."""

    code = 410
    reason = "Expired"


class RequestEntityTooLarge(ApiError):
    """The request body is too large."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The media type of the request body is not known."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    """The object was understood and breaks rules; the causes name the fields."""

    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    """The request may succeed later: the server is busy, or a disruption budget says not now."""

    code = 429
    reason = "TooManyRequests"


class InternalError(ApiError):
    """The server failed."""

    code = 500
    reason = "InternalError"


class ServerTimeout(ApiError):
    """A transient failure inside the server: try again."""

    code = 500
    reason = "ServerTimeout"


class ServiceUnavailable(ApiError):
    """The server, or one it depends on, does not answer at present."""

    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    """The server did not finish in time; the operation may still complete."""

    code = 504
    reason = "Timeout"


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotSupported,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
# `Gone` is the older word for Expired. Where a code has two classes, a bare code means the plainer one.
_BY_REASON: dict[str, type[ApiError]] = {cls.reason: cls for cls in _CLASSES} | {"Gone": Expired}
_BY_CODE: dict[int, type[ApiError]] = {cls.code: cls for cls in reversed(_CLASSES)} | {409: Conflict}


def from_status(status: Mapping[str, Any]) -> ApiError:
    """The error that a Status object tells of."""
    reason = status.get("reason") or ""
    code = status.get("code") or 0
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    return cls(
        status.get("message") or "unknown",
        details=status.get("details"),
        code=code or cls.code,
        reason=reason,
        list_metadata=status.get("metadata"),
    )


def _details(resource: GroupResource, name: str = "", **more: Any) -> dict[str, Any]:
    fields = {"name": name, "group": resource.group, "kind": resource.resource, **more}
    return {key: value for key, value in fields.items() if value}


def not_found(resource: GroupResource, name: str) -> NotFound:
    """No object of this name."""
    return NotFound(f"{resource} {golang.quote(name)} not found", details=_details(resource, name))


def already_exists(resource: GroupResource, name: str) -> AlreadyExists:
    """A create for a name that is taken."""
    message = f"{resource} {golang.quote(name)} already exists"
    return AlreadyExists(message, details=_details(resource, name))


def generate_name_conflict(resource: GroupResource, name: str, retry_after_seconds: int = 0) -> AlreadyExists:
    """A generated name that is taken."""
    message = (
        f"{resource} {golang.quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _details(resource, name, retryAfterSeconds=retry_after_seconds)
    return AlreadyExists(message, details=details)


def conflict(resource: GroupResource, name: str, error: object) -> Conflict:
    """An update that lost a race or a precondition that does not hold."""
    message = f"Operation cannot be fulfilled on {resource} {golang.quote(name)}: {error}"
    return Conflict(message, details=_details(resource, name))


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
    return Forbidden(message, details=_details(resource, name))


def invalid(kind: GroupKind, name: str, errors: Iterable[FieldError]) -> Invalid:
    """An object that breaks rules, field by field."""
    problems = list(errors)
    message = f"{kind} {golang.quote(name)} is invalid"
    if problems:
        message += f": {aggregate(problems)}"
    causes = [problem.to_cause() for problem in problems]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Invalid(message, details={key: value for key, value in details.items() if value})


def method_not_supported(resource: GroupResource, action: str) -> MethodNotSupported:
    """A verb the resource does not know."""
    message = f"{action} is not supported on resources of kind {golang.quote(str(resource))}"
    return MethodNotSupported(message, details=_details(resource))


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
    return ServerTimeout(message, details=_details(resource, operation, retryAfterSeconds=retry_after_seconds))


def timeout(message: str, retry_after_seconds: int = 0) -> Timeout:
    """A request that ran out of time."""
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    return Timeout(f"Timeout: {message}", details=details)


_PLAIN_MESSAGES: dict[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: ("the server was unable to return a response in the time allotted, but may still be processing the request"),
}


def from_response(
    code: int,
    *,
    verb: str,
    resource: GroupResource = NO_RESOURCE,
    name: str = "",
    body: str = "",
    retry_after_seconds: int = 0,
) -> ApiError:
    """The error for an answer whose body is no Status, such as a proxy's page. `verb` is the HTTP method."""
    cls = _BY_CODE.get(code)
    if code == 409 and verb == "POST":
        cls = AlreadyExists
    if cls is None or code in {410, 413, 500}:
        cls = InternalError if code >= 500 else ApiError
    message = f"the server responded with the status code {code} but did not return more information"
    if code in _PLAIN_MESSAGES:
        message = _PLAIN_MESSAGES[code]
    elif code in {403, 415} or (code == 406 and body not in {"", "unknown"}):
        message = body
    elif code == 406:
        message = "the server was unable to respond with a content type that the client supports"
    elif code >= 500:
        message = f"an error on the server ({golang.quote(body)}) has prevented the request from succeeding"
    if not resource.empty:
        message += f" ({verb.lower()} {resource}{' ' + name if name else ''})"
    details = _details(
        resource,
        name,
        causes=[{"reason": "UnexpectedServerResponse", "message": body}],
        retryAfterSeconds=retry_after_seconds,
    )
    return cls(message, details=details, code=code, reason=cls.reason)
