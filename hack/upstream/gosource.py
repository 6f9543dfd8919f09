"""What in a Go source can change behaviour: its code without comments and layout. Also reads .proto and .g4 files.

Comments that are instructions stay: those for the compiler (`//go:build`) and those for Kubernetes' generators
(`// +k8s:required`, `// +default=...`), from which validation and defaults are made.
"""

from __future__ import annotations

import re

__all__ = ["code", "without_imports"]

# The alternatives are tried in this order at every place, so that quotes in comments and comments in quotes are safe.
_TOKEN = re.compile(
    r"""(?P<text>`[^`]*` | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
      | (?P<line>//[^\n]*)
      | (?P<block>/\*.*?\*/)""",
    re.VERBOSE | re.DOTALL,
)
_INSTRUCTION = re.compile(r"//go:|//\s*\+[a-zA-Z]")
_IMPORTS = re.compile(r'^import (?:\(\n.*?^\)|(?:[\w.]+ )?"[^"\n]*")$', re.MULTILINE | re.DOTALL)


def code(text: str) -> str:
    """The source without comments, empty lines and layout, a statement's line to a line."""
    bare = _TOKEN.sub(_kept, text)
    lines = (re.sub(r"\s+", " ", line).strip() for line in bare.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def _kept(match: re.Match[str]) -> str:
    if match["text"] is not None:
        return match["text"]
    if match["line"] is not None:
        return match["line"] if _INSTRUCTION.match(match["line"]) else ""
    return "\n" * match["block"].count("\n") or " "


def without_imports(code_text: str) -> str:
    """The same without its imports. `code_text` is what `code` returned."""
    return _IMPORTS.sub("", code_text)
