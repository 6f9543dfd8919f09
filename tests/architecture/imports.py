"""What a file imports, by full name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.source import Source

__all__ = ["imported"]


def imported(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, by full name, wherever in the file."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = source.name.split(".")
                above = parts[: len(parts) - node.level + source.is_package]
                base = ".".join([*above, base] if base else above)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute | ast.Name)
            and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)
