"""The target of a request: its path and its query, as Go's HTTP server reads them."""

from __future__ import annotations

import re
import urllib.parse

__all__ = ["decode_path", "is_well_formed"]

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def is_well_formed(target: bytes) -> bool:
    """Whether every escape in the path is one. Guessing at the others would make two paths of one."""
    return b"%" not in target or _BAD_ESCAPE.search(target.partition(b"?")[0]) is None


def decode_path(path: str) -> str:
    """The path without escapes, once; `path` has a character for each byte."""
    if path.isascii() and "%" not in path:
        return path
    return urllib.parse.unquote_to_bytes(path.encode("latin-1")).decode("utf-8", "replace")
