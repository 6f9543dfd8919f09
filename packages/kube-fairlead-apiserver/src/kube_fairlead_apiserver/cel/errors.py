"""The errors of expressions, and how they are reported.

::

    CelError
    ├── CompileError       the source is wrong; carries Issues with positions
    ├── EvaluationError    this evaluation has no value; && and || may absorb it
    └── CostExceeded       the budget is spent; nothing absorbs it

Texts follow cel-go, because Kubernetes shows them to users word for word.

Upstream: github.com/google/cel-go@v0.26.0/common/errors.go,
    github.com/google/cel-go@v0.26.0/common/error.go,
    github.com/google/cel-go@v0.26.0/interpreter/runtimecost.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

__all__ = ["CelError", "CompileError", "CostExceeded", "EvaluationError", "Issue", "IssueLog"]

_SNIPPET_CHARACTERS_MAX = 16384
_ISSUES_REPORTED_MAX = 100


class CelError(Exception):
    """Base class of the errors of this package."""


class EvaluationError(CelError):
    """Raised when an expression has no value for these bindings (division by zero, no such key, ...)."""


class CostExceeded(CelError):
    """Raised when evaluation costs more than the caller allowed."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclasses.dataclass(frozen=True, slots=True)
class Issue:
    """One error in the source. Lines and columns count from one; columns are code points."""

    line: int
    column: int
    text: str
    snippet: str = ""

    def __str__(self) -> str:
        head = f"ERROR: <input>:{self.line}:{self.column}: {self.text}"
        if not self.line or len(self.snippet) > _SNIPPET_CHARACTERS_MAX:
            return head
        snippet = self.snippet.replace("\t", " ")
        # A wide character needs a wide mark below it to keep the caret aligned.
        marks = ["\uff0e" if character > "\x7f" else "." for character in snippet[: self.column - 1]]
        caret = "\uff3e" if snippet[self.column - 1 : self.column] > "\x7f" else "^"
        return f"{head}\n | {snippet}\n | {''.join(marks)}{caret}"


class CompileError(CelError):
    """Raised when the source does not parse, does not type-check or breaks a limit."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(sorted(issues, key=lambda issue: (issue.line, issue.column)))
        shown = [str(issue) for issue in self.issues[:_ISSUES_REPORTED_MAX]]
        if len(self.issues) > _ISSUES_REPORTED_MAX:
            shown.append(f"{len(self.issues) - _ISSUES_REPORTED_MAX} more errors were truncated")
        super().__init__("\n".join(shown))


class IssueLog:
    """Collects issues of one source text, and converts offsets to lines and columns."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.issues: list[Issue] = []

    def report(self, offset: int, text: str) -> None:
        """Add an issue at this offset."""
        line = self._source.count("\n", 0, offset) + 1
        start = self._source.rfind("\n", 0, offset) + 1
        end = self._source.find("\n", start)
        snippet = self._source[start : len(self._source) if end < 0 else end]
        self.issues.append(Issue(line, offset - start + 1, text, snippet))

    def raise_if_any(self) -> None:
        """Raise CompileError when there are issues."""
        if self.issues:
            raise CompileError(self.issues)
