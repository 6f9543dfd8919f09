"""Parses PEM as Go does, and validates the certificates in it.

Go uses the last BEGIN line before each END line, and skips text around blocks and malformed blocks.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/validation/validation.go
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

import msgspec

__all__ = ["Block", "certificates_fault", "pem_blocks"]

_BEGIN = b"-----BEGIN "
_END = b"\n-----END "
_DASHES = b"-----"
_BLANKS = b" \t\r"
_SEQUENCE = 0x30
_LONG_FORM = 0x80


class Block(msgspec.Struct, frozen=True):
    """The content between one BEGIN line and its END line."""

    kind: bytes
    has_headers: bool
    content: bytes


def pem_blocks(data: bytes) -> Iterator[Block]:
    """Return every well-formed block."""
    begun = 0
    while (end := data.find(_END, begun)) >= 0:
        block = _read_block(data, begun, end)
        if block is not None:
            yield block
        begun = end + len(_END)


def _read_block(data: bytes, begun: int, end: int) -> Block | None:
    first = data.rfind(_BEGIN, begun, end + 1)
    if first < 0 or (first > begun and data[first - 1 : first] != b"\n"):
        return None
    lines = data[first + len(_BEGIN) : end + 1].split(b"\n")
    kind = lines.pop(0).rstrip(_BLANKS)
    last = end + len(_END)
    stop = data.find(b"\n", last)
    if not kind.endswith(_DASHES) or data[last : stop if stop >= 0 else None].rstrip(_BLANKS) != kind:
        return None
    has_headers = False
    while lines and b":" in lines[0]:
        lines.pop(0)
        has_headers = True
    try:
        content = base64.b64decode(b"".join(lines).translate(None, _BLANKS), validate=True)
    except binascii.Error:
        return None
    return Block(kind.removesuffix(_DASHES), has_headers, content)


def certificates_fault(data: bytes) -> str:
    """Return the error of a chain of certificates; empty when it is valid."""
    count = 0
    for block in pem_blocks(data):
        if block.kind != b"CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.kind.decode(errors="replace")}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        count += 1
        fault = _der_fault(block.content)
        if fault:
            return fault
    return "" if count else "must contain at least one CERTIFICATE PEM block"


def _der_fault(content: bytes) -> str:
    from cryptography import x509  # imported at its first use: the server starts without it

    if not content:
        return "found CERTIFICATE PEM block containing 0 certificates"
    while content:
        size = _der_size(content)
        try:
            x509.load_der_x509_certificate(content[:size])
        except ValueError:
            return "x509: malformed certificate"
        content = content[size:]
    return ""


def _der_size(content: bytes) -> int:
    """Return the number of bytes of the first value, its head included; all bytes when its length is not given."""
    if len(content) < 2 or content[0] != _SEQUENCE:
        return len(content)
    if content[1] < _LONG_FORM:
        return 2 + content[1]
    digits = content[1] - _LONG_FORM
    return 2 + digits + int.from_bytes(content[2 : 2 + digits])
