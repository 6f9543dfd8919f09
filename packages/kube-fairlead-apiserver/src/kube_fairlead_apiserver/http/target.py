"""The target of a request: its path and its query, as Go's HTTP server reads them."""

from __future__ import annotations

import re
import urllib.parse

__all__ = ["decode_path", "is_well_formed", "path_and_query", "read_query"]

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def is_well_formed(target: bytes) -> bool:
    """Return whether every escape in the path is valid. Accepting others would make two paths equal."""
    if target.startswith(b"*") and target != b"*":
        return False
    return b"%" not in target or _BAD_ESCAPE.search(target.partition(b"?")[0]) is None


def decode_path(path: str) -> str:
    """Return the path without escapes, once; `path` has a character for each byte."""
    if path.isascii() and "%" not in path:
        return path
    return urllib.parse.unquote_to_bytes(path.encode("latin-1")).decode("utf-8", "replace")


def path_and_query(target: str) -> str:
    """Return the path and query of a request target; the scheme and host of an absolute one are dropped."""
    if target.startswith("/") or target == "*":
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def read_query(query: str) -> dict[str, list[str]]:
    """Return every value of every key. A pair with a semicolon or an invalid escape is ignored."""
    if ";" in query or "%" in query:
        pairs = query.split("&")
        query = "&".join(pair for pair in pairs if ";" not in pair and not _BAD_ESCAPE.search(pair.encode("latin-1")))
    return urllib.parse.parse_qs(query, keep_blank_values=True)
