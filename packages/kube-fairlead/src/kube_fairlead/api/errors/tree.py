"""The classes, and how a Status finds its own.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/errors/errors.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    "by_code",
    "from_status",
]


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
        # ListMeta of the Status: an expired page holds its continue token here.
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
        """Seconds to wait before a retry; 0 when the server sets none."""
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


def by_code(code: int) -> type[ApiError] | None:
    """The class that a bare HTTP code stands for."""
    return _BY_CODE.get(code)


def from_status(status: Mapping[str, Any]) -> ApiError:
    """The error that a Status object describes."""
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
