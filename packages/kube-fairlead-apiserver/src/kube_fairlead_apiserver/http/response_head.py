"""The head of an HTTP/1.1 response, as bytes."""

from __future__ import annotations

import http

from kube_fairlead_apiserver.http.messages import Response

__all__ = [
    "BAD_REQUEST",
    "EXPECTATION_FAILED",
    "HEAD_TOO_LARGE",
    "NOT_IMPLEMENTED",
    "VERSION_NOT_SUPPORTED",
    "encode",
]


def _plain(status: int, phrase: str) -> bytes:
    """Return a complete response to a malformed request, with the text of Go's HTTP server."""
    line = f"{status} {phrase}"
    top = f"HTTP/1.1 {line}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    return f"{top}content-length: {len(line)}\r\n\r\n{line}".encode("ascii")


BAD_REQUEST = _plain(400, "Bad Request")
EXPECTATION_FAILED = _plain(417, "Expectation Failed")
NOT_IMPLEMENTED = _plain(501, "Not Implemented")
VERSION_NOT_SUPPORTED = _plain(505, "HTTP Version Not Supported")
HEAD_TOO_LARGE = _plain(431, "Request Header Fields Too Large")

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in http.HTTPStatus}


def encode(response: Response, date: bytes, *, closing: bool, length: int = 0, chunked: bool | None = None) -> bytes:
    """Status line and headers.

    ``chunked`` is None for a body of known length, and False for one that ends with the connection.
    """
    line = _STATUS_LINES.get(response.status) or f"HTTP/1.1 {response.status} \r\n"
    parts = [line, f"content-type: {response.content_type}\r\n"]
    for name, value in response.headers:
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} would have several lines: {value!r}")
        parts.append(f"{name}: {value}\r\n")
    if chunked is None:
        parts.append(f"content-length: {length}\r\n")
    elif chunked:
        parts.append("transfer-encoding: chunked\r\n")
    if closing:
        parts.append("connection: close\r\n")
    return "".join(parts).encode() + date
