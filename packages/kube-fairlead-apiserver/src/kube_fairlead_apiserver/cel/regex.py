"""Regular expressions as in Go: RE2 syntax, linear time, Go's error texts.

Patterns in schemas, CEL and webhooks come from clients, so Python's backtracking engine cannot be used. This is the
only module that imports `re2`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

__all__ = ["PatternError", "Regex", "compile_regex"]

_TOO_LARGE = "expression too large"
# RE2 in C++ and in Go have different texts for the same errors; clients expect Go's.
_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": _TOO_LARGE,
}

_INSIDE_CHARACTER = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))  # a continuation byte of UTF-8


class PatternError(ValueError):
    """A pattern does not compile; the message is that of Go's regexp package."""

    @property
    def too_large(self) -> bool:
        """Whether the pattern is only too large. Detecting that takes a tenth of a second."""
        return str(self).endswith(_TOO_LARGE)


class Regex:
    """One compiled pattern. Positions are not exposed, so bytes and characters are never confused."""

    __slots__ = ("_regexp", "pattern")

    def __init__(self, pattern: str) -> None:
        import re2  # at the first pattern, so that the server starts without it

        self.pattern = pattern
        options = re2.Options()
        options.log_errors = False
        try:
            self._regexp = re2.compile(pattern, options)
        except re2.error as error:
            raise PatternError(_go_message(error)) from None
        except UnicodeEncodeError:
            raise PatternError("error parsing regexp: invalid UTF-8") from None

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"

    @property
    def groups(self) -> int:
        """The number of capturing groups."""
        return int(self._regexp.groups)

    def search(self, text: str) -> bool:
        """Return whether the pattern occurs anywhere in the text (Go's MatchString)."""
        return self._regexp.search(_encode(text)) is not None

    def find(self, text: str) -> str | None:
        """Return the leftmost match, or None."""
        match = self._regexp.search(_encode(text))
        return None if match is None else _decode(match.group())

    def find_all(self, text: str) -> Iterator[tuple[str | None, ...]]:
        """Yield every match from left to right, each followed by its groups.

        Empty matches are those of Go: between characters, and not directly after another match.
        """
        encoded = _encode(text)
        end = -1
        for match in self._regexp.finditer(encoded):
            start = match.start()
            if start == match.end() and (start == end or encoded[start : start + 1] in _INSIDE_CHARACTER):
                continue
            end = match.end()
            yield _all_groups(match)


def compile_regex(pattern: str) -> Regex:
    """Compile a pattern, or raise PatternError. The result is cached, because schemas and policies repeat patterns."""
    compiled = _compile(pattern)
    if isinstance(compiled, str):
        raise PatternError(compiled)
    return compiled


@functools.lru_cache(maxsize=1024)
def _compile(pattern: str) -> Regex | str:
    """Return a compiled pattern, or the error; an error is cached, too, because it can take longer."""
    try:
        return Regex(pattern)
    except PatternError as error:
        return str(error)


def _encode(text: str) -> bytes:
    # JSON may carry lone surrogates; Go decodes those to U+FFFD and matches that.
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass").decode(errors="replace").encode()


def _decode(text: bytes) -> str:
    return text.decode()


def _all_groups(match: re2._Match) -> tuple[str | None, ...]:
    return tuple(None if group is None else _decode(group) for group in (match.group(), *match.groups()))


def _go_message(error: re2.error) -> str:
    raw = error.args[0] if error.args else b""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if text == "trailing \\":
        return "error parsing regexp: trailing backslash at end of expression: ``"
    what, separator, where = text.partition(": ")
    if what == "invalid perl operator" and where == "(?<!":
        what = "invalid named capture group"  # Go reads (?< as the start of a name
    what = _GO_WORDS.get(what, what)
    return f"error parsing regexp: {what}: `{where}`" if separator else f"error parsing regexp: {what}"
