"""The headers of a request: which of several counts, and which of them make it no request at all.

As Go's HTTP server, before which clients are tested, but stricter where two readers could disagree on where a request
ends. Such a request is refused rather than repaired: what follows it might be read as another client's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from kube_fairlead_apiserver.http import head

__all__ = ["Framing", "decode_value", "first_values", "read_framing"]

# What Go accepts in a Host header.
_HOST = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")
_CONTINUE = "100-continue"
_NAMES = frozenset({"host", "content-length", "transfer-encoding", "expect", "upgrade"})


class Framing(msgspec.Struct, frozen=True):
    """What the headers say of the message itself, or why it is refused."""

    declared_bytes: int = 0
    expects_continue: bool = False
    refusal: bytes = b""


def decode_value(value: bytes) -> str:
    """A header's value. Go keeps the bytes and takes them for UTF-8; RFC 9110 once said ISO 8859-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def first_values(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """One value per name, the first, also when it is empty: what `http.Header.Get` gives to kube-apiserver.

    A header that counts as a whole list is read from the list itself (`Request.header_list`).
    """
    return dict(reversed(headers))


def read_framing(version: str, headers: Sequence[tuple[str, str]]) -> Framing:
    """The parser has refused lengths that are no number or come twice, and a length beside Transfer-Encoding."""
    if version not in {"1.1", "1.0"}:
        return Framing(refusal=head.VERSION_NOT_SUPPORTED)
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
        return Framing(refusal=head.BAD_REQUEST)
    if encoding and encoding != "chunked":
        return Framing(refusal=head.NOT_IMPLEMENTED)
    # HTTP/1.0 knows no chunks, so a reader before this server may have passed them on as something else.
    # A request for another protocol has no body: the parser would pass over it, and with it what a delete is bound to.
    if (encoding and version == "1.0") or (upgrade and (declared or encoding)):
        return Framing(refusal=head.BAD_REQUEST)
    if expect not in {"", _CONTINUE}:
        return Framing(refusal=head.EXPECTATION_FAILED)
    return Framing(declared, expect == _CONTINUE)
