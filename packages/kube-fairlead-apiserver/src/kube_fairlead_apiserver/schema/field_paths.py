"""Parses paths into a schema, as in ``fieldPath`` of a rule and in ``selectableFields``: ``.spec.foo['b.r']``.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/cel/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["resolve_field_path"]

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+|'", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def resolve_field_path(text: str, node: SchemaNode, *, brackets: bool = True) -> tuple[FieldPath, SchemaNode]:
    """Return the path in canonical form and its node; a ValueError has Kubernetes' error text."""
    path = FieldPath()
    pieces = iter(_TOKEN.findall(text))
    for piece in pieces:
        if piece == "[":
            if not brackets:
                raise ValueError("array notation is not allowed")
            path, node = _descend(path, node, _unquote(_next(pieces)))
            if (closing := _next(pieces)) != "]":
                raise ValueError(f"expected ] but got {closing}")
        elif piece == ".":
            path, node = _descend(path, node, _next(pieces))
        else:
            raise ValueError(f"expected [ or . but got: {piece}")
    return path, node


def _next(pieces: Iterator[str]) -> str:
    piece = next(pieces, None)
    if piece is None:
        raise ValueError("unexpected end of JSON path")
    return piece


def _unquote(piece: str) -> str:
    if len(piece) < 2 or not piece.startswith("'") or not piece.endswith("'"):
        raise ValueError(f"expected single quoted string but got {piece}")

    def replace(match: re.Match[str]) -> str:
        if match[0][1] not in _ESCAPES:
            raise ValueError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[0][1]]

    return re.sub(r"\\.", replace, piece[1:-1])


def _descend(path: FieldPath, node: SchemaNode, name: str) -> tuple[FieldPath, SchemaNode]:
    if node.properties:
        child = node.properties.get(name)
        if child is None:
            raise ValueError("does not refer to a valid field")
        return path.child(name), child
    if node.additional is not None and node.additional is not ANYTHING:
        return path.key(name), node.additional
    raise ValueError("does not refer to a valid field")
