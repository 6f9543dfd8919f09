"""Decodes JSON as Go does: invalid UTF-8 and lone surrogates become U+FFFD instead of an error.

Well-formed text is decoded once, without extra cost.

Upstream: sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730/internal/golang/encoding/json/decode.go
"""

from __future__ import annotations

import codecs
import re
from typing import Any

import msgspec

__all__ = ["decode_json_text"]

# A pair of surrogates, half of one, or any other escape: each backslash belongs to exactly one match.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_ERRORS = "fairlead.one-per-byte"


def _one_per_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_ERRORS, _one_per_byte)


def decode_json_text(data: bytes) -> tuple[Any, bytes]:
    """Return the value of a JSON text, and the text as it was decoded.

    Raises:
        msgspec.DecodeError: the text is not JSON.
    """
    try:
        return msgspec.json.decode(data), data
    except (msgspec.DecodeError, UnicodeDecodeError):
        mended = _mend(data)
        if mended == data:
            raise
    return msgspec.json.decode(mended), mended


def _mend(data: bytes) -> bytes:
    text = data.decode("utf-8", _ERRORS).encode()
    return _ESCAPE.sub(lambda found: found[0] if found[1] is None else rb"\ufffd", text)
