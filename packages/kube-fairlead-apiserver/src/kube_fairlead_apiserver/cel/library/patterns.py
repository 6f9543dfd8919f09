"""Regular expressions: ``matches``, and Kubernetes' ``find`` and ``findAll``.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/regex.go,
    github.com/google/cel-go@v0.26.0/interpreter/optimizations.go,
    github.com/google/cel-go@v0.26.0/common/stdlib/standard.go
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from kube_fairlead_apiserver.cel import errors, regex
from kube_fairlead_apiserver.cel.declarations import Library, Overload, PlannedArgument, Specialize, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, INT, STRING, list_of

__all__ = ["KUBERNETES_REGEX", "MATCHING"]


def _matches(text: str, pattern: str) -> bool:
    try:
        return regex.compile_regex(pattern).search(text)
    except regex.PatternError as error:
        raise errors.EvaluationError(str(error)) from None


def _compiled(pattern: str) -> regex.Regex:
    try:
        return regex.compile_regex(pattern)
    except regex.PatternError as error:
        raise errors.EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    return _compiled(pattern).find(text) or ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = (groups[0] or "" for groups in _compiled(pattern).find_all(text))
    return list(found if limit < 0 else itertools.islice(found, limit))


def _with_pattern_compiled(use: Callable[[regex.Regex], Callable[..., Any]]) -> Specialize:
    """Compile a constant pattern during planning."""

    def specialize(arguments: Sequence[PlannedArgument]) -> Callable[..., Any] | None:
        pattern = arguments[1]
        if not pattern.is_constant:
            return None
        try:
            return use(regex.compile_regex(pattern.value))
        except regex.PatternError:
            return None  # reported by the evaluation

    return specialize


def _searching(compiled: regex.Regex) -> Callable[[str, str], bool]:
    search = compiled.search
    return lambda text, _pattern: search(text)


def _specialized(overload: Overload, specialize: Specialize) -> Overload:
    return dataclasses.replace(overload, specialize=specialize)


_SEARCH = _with_pattern_compiled(_searching)

MATCHING = Library(
    "matching",
    overloads=(
        _specialized(function("matches", (STRING, STRING), BOOL, _matches, costs.pattern), _SEARCH),
        _specialized(member("matches", (STRING, STRING), BOOL, _matches, costs.pattern), _SEARCH),
    ),
)
KUBERNETES_REGEX = Library(
    "kubernetes.regex",
    overloads=(
        member("find", (STRING, STRING), STRING, _find, costs.pattern),
        member("findAll", (STRING, STRING), list_of(STRING), _find_all, costs.pattern),
        member("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, costs.pattern),
    ),
)
