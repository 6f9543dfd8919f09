"""The headers of a request: which of duplicate headers counts, and which make the request malformed.

As Go's HTTP server, with which clients are tested, but stricter where two readers could disagree on where a request
ends. Such a request is rejected: the bytes after it might be read as another client's request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from kube_fairlead_apiserver.http import response_head

__all__ = ["Framing", "decode_value", "first_values", "read_framing"]

# What Go accepts in a Host header.
_HOST = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")
_CONTINUE = "100-continue"
_NAMES = frozenset({"host", "content-length", "transfer-encoding", "expect", "upgrade"})


class Framing(msgspec.Struct, frozen=True):
    """The framing of the message by its headers, or the reason of its rejection."""

    declared_bytes: int = 0
    expects_continue: bool = False
    refusal: bytes = b""


def decode_value(value: bytes) -> str:
    """Return a header's value. Go decodes it as UTF-8, although RFC 9110 once said ISO 8859-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def first_values(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return one value per name, the first, also when it is empty: as Go's `http.Header.Get`.

    Headers with several values are read from `Request.header_list`.
    """
    return dict(reversed(headers))


def read_framing(version: str, headers: Sequence[tuple[str, str]]) -> Framing:
    """Return the framing.

    The parser already rejects invalid and duplicate lengths, and a length beside Transfer-Encoding.
    """
    if version not in {"1.1", "1.0"}:
        return Framing(refusal=response_head.VERSION_NOT_SUPPORTED)
    hosts: list[str] = []
    declared = 0
    expect = encoding = upgrade = ""
    for name, value in headers:
        if name not in _NAMES:
            continue
        if name == "host":
            hosts.append(value)
        elif name == "content-length":
            declared = int(value)
        elif name == "transfer-encoding":
            encoding = encoding or value.strip().lower() or "none"
        elif name == "expect":
            expect = expect or value.strip().lower()
        elif name == "upgrade":
            upgrade = value
    if len(hosts) > 1 or not (hosts or version == "1.0") or (hosts and not _HOST.fullmatch(hosts[0])):
        return Framing(refusal=response_head.BAD_REQUEST)
    if encoding and encoding != "chunked":
        return Framing(refusal=response_head.NOT_IMPLEMENTED)
    # HTTP/1.0 has no chunks, so a proxy before this server may have forwarded them as something else.
    # An upgrade request has no body: the parser would skip it, and with it the preconditions of a delete.
    if (encoding and version == "1.0") or (upgrade and (declared or encoding)):
        return Framing(refusal=response_head.BAD_REQUEST)
    if expect not in {"", _CONTINUE}:
        return Framing(refusal=response_head.EXPECTATION_FAILED)
    return Framing(declared, expect == _CONTINUE)
