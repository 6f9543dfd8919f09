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

from kube_fairlead.api.errors.messages import (
    already_exists,
    apply_conflict,
    conflict,
    forbidden,
    generate_name_conflict,
    internal_error,
    invalid,
    method_not_supported,
    not_acceptable,
    not_found,
    request_entity_too_large,
    server_timeout,
    timeout,
    too_many_requests,
    unsupported_media_type,
)
from kube_fairlead.api.errors.responses import from_response
from kube_fairlead.api.errors.tree import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotSupported,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    from_status,
)

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
