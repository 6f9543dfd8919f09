"""Errors for answers that are no Status, such as a proxy's page.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/errors/errors.go
"""

from __future__ import annotations

from kube_fairlead.api import golang
from kube_fairlead.api.errors.messages import resource_details
from kube_fairlead.api.errors.tree import AlreadyExists, ApiError, InternalError, by_code
from kube_fairlead.api.gvk import GroupResource

__all__ = ["from_response"]

_NO_RESOURCE = GroupResource("", "")
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
    resource: GroupResource = _NO_RESOURCE,
    name: str = "",
    body: str = "",
    retry_after_seconds: int = 0,
) -> ApiError:
    """The error for an answer whose body is no Status, such as a proxy's page. `verb` is the HTTP method."""
    cls = by_code(code)
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
    details = resource_details(
        resource,
        name,
        causes=[{"reason": "UnexpectedServerResponse", "message": body}],
        retryAfterSeconds=retry_after_seconds,
    )
    return cls(message, details=details, code=code, reason=cls.reason)
