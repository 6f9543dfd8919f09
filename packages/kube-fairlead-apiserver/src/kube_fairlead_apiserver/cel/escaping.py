"""How Kubernetes spells property names as CEL identifiers.

``my-field`` becomes ``my__dash__field``; a reserved word such as ``namespace`` becomes ``__namespace__``.
Names with other characters have no spelling and are invisible to expressions.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/escaping.go
"""

from __future__ import annotations

import re

__all__ = ["RESERVED", "escape", "unescape"]

RESERVED = frozenset({
    *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
    *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
})  # fmt: skip

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNESCAPES = {escaped.strip("_"): plain for plain, escaped in _ESCAPES.items()}
_EXPRESSIBLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_TO_ESCAPE = re.compile(r"__|[-./]")
_TO_UNESCAPE = re.compile(r"__([^_]+)__")


def escape(name: str) -> str | None:
    """The identifier for a property name, or None when it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _EXPRESSIBLE.fullmatch(name):
        return None
    return _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], name)


def unescape(identifier: str) -> str | None:
    """The property name an identifier stands for, or None when its escapes are wrong."""
    whole = _TO_UNESCAPE.fullmatch(identifier)
    if whole and whole[1] in RESERVED:
        return whole[1]
    if any(match[1] not in _UNESCAPES for match in _TO_UNESCAPE.finditer(identifier)):
        return None
    return _TO_UNESCAPE.sub(lambda match: _UNESCAPES[match[1]], identifier)
