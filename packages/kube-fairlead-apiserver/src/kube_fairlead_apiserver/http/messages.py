"""One HTTP request and one response, as plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.streams import Stream

__all__ = [
    "MAX_BODY_BYTES",
    "STALL_SECONDS",
    "Query",
    "Request",
    "Response",
    "json_response",
    "status_response",
]


# As Kubernetes: no object, patch or set of options may be larger.
MAX_BODY_BYTES = 3 << 20
_MOST_DIGITS = 1000  # of a number, leading zeros included

# A client that reads nothing of its response for this long is disconnected.
STALL_SECONDS = 60.0

_FALSE = frozenset({"0", "false"})


class Query:
    """The query string: every value of every key; where one is needed, the first."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def get(self, name: str, default: str = "") -> str:
        """Return the first value, or the default."""
        values = self._values.get(name)
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        """Return every value, in order."""
        return self._values.get(name, [])

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def flag(self, name: str) -> bool:
        """Return a boolean as Kubernetes reads it in a query: present means true, except for `false` and `0`."""
        return name in self._values and self.get(name).lower() not in _FALSE

    def integer(self, name: str) -> int | None:
        """Return a whole number, or None when it is absent."""
        if name not in self._values:
            return None
        text = self.get(name)
        digits = text[1:] if text[:1] in {"-", "+"} else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
            fault = "value out of range" if digits.isascii() and digits.isdigit() else "invalid syntax"
            raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": {fault} ({name})')
        value = int(text)
        if not -(2**63) <= value < 2**63:
            raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range ({name})')
        return value


class Request(msgspec.Struct, eq=False):
    """A request. Header names are lower case."""

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    read_body: Callable[[], Awaitable[bytes]]
    peer_certificate: bytes | None = None  # DER, already verified against the client CA
    client_address: str = ""
    target: str = ""  # the path and query as received
    audit_id: str = ""  # identifies the request in the audit log and to the client
    audit_annotations: dict[str, str] = {}  # annotations of admission for the audit log
    # Every header as received, for headers with several values.
    header_list: Sequence[tuple[str, str]] = ()
    # The flow of this user's requests, and the seconds reserved for this one if it has its turn. The connection sets
    # what it knows; the handler replaces it.
    flow: Any = None
    reserved: float = 0.0
    # Called when the caller is authenticated.
    on_identified: Callable[[], None] | None = None
    # The user of in-process clients and tests, which send no credentials.
    trusted_user: Any = None

    def header(self, name: str, default: str = "") -> str:
        """Return a header's value, or the default."""
        return self.headers.get(name, default)


class Response(msgspec.Struct):
    """A response. ``body`` is bytes, pieces to send in order, or a stream."""

    status: int = 200
    body: bytes | list[bytes] | Stream = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = []
    # The connection is cut when the client has read nothing of the response for this long.
    stall_seconds: float = STALL_SECONDS
    # Called when the response was written to the network, or when that has failed.
    on_sent: Callable[[], None] | None = None

    def discard(self) -> None:
        """Close a stream, read to its end or not."""
        if isinstance(self.body, Stream):
            self.body.close()

    def sent(self) -> None:
        """Release the memory of the response."""
        if self.on_sent is not None:
            self.on_sent()


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as a JSON body."""
    return Response(status, msgspec.json.encode(value))


def status_response(error: errors.ApiError) -> Response:
    """Return an API error as the Status object that clients decode."""
    response = json_response(error.to_status(), error.code)
    if isinstance(error, errors.Unauthorized):
        response.headers.append(("www-authenticate", 'Bearer realm="fairlead"'))
    retry_after = (error.details or {}).get("retryAfterSeconds")
    if retry_after:
        response.headers.append(("retry-after", str(retry_after)))
    return response
