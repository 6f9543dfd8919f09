"""What a YAML parser complains of, in one line that says where."""

from __future__ import annotations

from typing import Any

__all__ = ["problem", "where"]


def problem(error: Exception) -> str:
    """The complaint with its place: `line 2, column 4: mapping values are not allowed here`.

    May quote a word of the file: not for files with secrets in them. Those have `where`.
    """
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    place = where(error)
    return " ".join(f"{place}: {what}".split()) if place else " ".join(str(what).split())


def where(error: Exception) -> str:
    """The place of the complaint; empty when the parser does not know one."""
    mark: Any = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
