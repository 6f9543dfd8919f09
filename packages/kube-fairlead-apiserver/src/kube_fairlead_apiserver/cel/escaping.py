"""Escapes property names as CEL identifiers, as Kubernetes does.

``my-field`` becomes ``my__dash__field``; a reserved word such as ``namespace`` becomes ``__namespace__``. Names with
other characters have no identifier, so expressions cannot use them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/escaping.go
"""

from __future__ import annotations

import re

__all__ = ["RESERVED", "escape"]

RESERVED = frozenset({
    *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
    *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
})  # fmt: skip

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_EXPRESSIBLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_TO_ESCAPE = re.compile(r"__|[-./]")


def escape(name: str) -> str | None:
    """Return the identifier of a property name, or None when it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _EXPRESSIBLE.fullmatch(name):
        return None
    return _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], name)
