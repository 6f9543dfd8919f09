"""Taking secrets out of what is about to be shown: by the name of a field, and by the look of a text."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["REDACTED", "redact", "redact_text"]

REDACTED = "[redacted]"

# The last words of a field's name that make its value a secret, whatever stands before them: clientKeyData,
# client-key-data and CLIENT_KEY_DATA all end in `key_data`. A `secret_name` or a `token_count` is no secret.
_SECRET_ENDINGS = (
    "access_key",
    "api_key",
    "authorization",
    "bearer",
    "client_key",
    "cookie",
    "credential",
    "credentials",
    "key_data",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "secret",
    "secret_key",
    "token",
    "tokens",
)
# An object of kind Secret keeps them here.
_SECRET_KIND_FIELDS = frozenset({"data", "stringData"})
_DEPTH_LIMIT = 12

# Compiled with the first line that is logged; most programs that start say nothing for a while.
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"(?s)-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", REDACTED),
    (r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"',;]+", rf"\1{REDACTED}"),
    (r"(?i)\b(bearer\s+)[a-z0-9\-._~+/]+=*", rf"\1{REDACTED}"),
    # JSON Web Tokens, which is what service account tokens are, are recognised wherever they stand.
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", REDACTED),
    (r"(?i)(\b[a-z][a-z0-9+.-]{0,15}://[^\s/:@]*:)[^\s/@]+@", rf"\1{REDACTED}@"),
    (
        r"(?i)([\"']?\b(?:password|passwd|client[-_]?secret|token)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&}]+",
        rf"\1{REDACTED}",
    ),
)


@functools.cache
def _word_border() -> re.Pattern[str]:
    return re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in _PATTERNS)


def redact(name: str, value: Any) -> Any:
    """A value that is safe to show: itself, or a copy without its secrets.

    Args:
        name: the field it stands in; empty for none.
        value: anything; mappings and sequences are looked into.
    """
    return _redact(name, value, _DEPTH_LIMIT)


def redact_text(text: str) -> str:
    """A text without the tokens, keys and passwords in it."""
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


def _redact(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if name and _is_secret(name):
        return REDACTED
    if depth == 0:
        return "..."
    if isinstance(value, Mapping):
        hidden = _SECRET_KIND_FIELDS if value.get("kind") == "Secret" else frozenset()
        return {
            str(key): REDACTED if key in hidden else _redact(str(key), item, depth - 1) for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redact("", item, depth - 1) for item in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return redact_text(str(value))


def _is_secret(name: str) -> bool:
    spelt = "_".join(filter(None, _word_border().split(name))).lower()
    return any(spelt == ending or spelt.endswith(f"_{ending}") for ending in _SECRET_ENDINGS)
