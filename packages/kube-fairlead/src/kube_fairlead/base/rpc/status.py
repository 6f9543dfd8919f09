"""Status codes of gRPC, and how a status is spelt in HTTP/2 headers."""

from __future__ import annotations

import enum
import urllib.parse
from typing import Final

__all__ = ["Code", "decode_code", "decode_text", "encode_text"]

# Percent-encoding makes three bytes of one, and clients take headers of 8 KiB at least.
_TEXT_BYTES_MAX: Final = 2048
# Printable ASCII without the percent sign, as the specification has it.
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class Code(enum.IntEnum):
    """How a call ended."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


def decode_code(text: str) -> Code | None:
    """The `grpc-status` header; None if it is no status."""
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= max(Code)):
        return None
    return Code(int(text))


def encode_text(text: str) -> str:
    """The `grpc-message` header. A text that is too long for a header ends in an ellipsis."""
    data = text.encode("utf-8", errors="replace")
    if len(data) > _TEXT_BYTES_MAX:
        data = data[:_TEXT_BYTES_MAX].decode("utf-8", errors="ignore").encode() + "…".encode()
    quoted = urllib.parse.quote(data, safe=_PLAIN)
    # HTTP/2 forbids spaces around a value.
    inner = quoted.strip(" ")
    before, _, after = quoted.partition(inner) if inner else (quoted, "", "")
    return before.replace(" ", "%20") + inner + after.replace(" ", "%20")


def decode_text(header: str) -> str:
    """What a `grpc-message` header says. Escapes that are none are left as they are."""
    return urllib.parse.unquote(header, errors="replace")
