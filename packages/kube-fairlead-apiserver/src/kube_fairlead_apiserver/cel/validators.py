"""Validates literals after type checking, before anything runs.

Durations, timestamps and patterns given as literals must be valid, lists and maps must not mix types (except as
arguments of ``format``), and a literal format string must fit its arguments.

Upstream: github.com/google/cel-go@v0.26.0/cel/validator.go,
    github.com/google/cel-go@v0.26.0/ext/formatting.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kube_fairlead_apiserver.cel import errors, nodes, regex, times, types, unification
from kube_fairlead_apiserver.cel.library import conversions, formatting
from kube_fairlead_apiserver.cel.types import CelType

__all__ = ["validate"]


def validate(root: nodes.Expr, issues: errors.IssueLog) -> None:
    """Report the invalid literals of a checked tree."""
    for node, in_format in _walk(root):
        match node:
            case nodes.Call():
                _check_call(node, issues)
            case nodes.ListLiteral() if not in_format:
                _check_list(node, issues)
            case nodes.MapLiteral() if not in_format:
                _check_map(node, issues)
            case _:
                pass


def _walk(root: nodes.Expr) -> Iterator[tuple[nodes.Expr, bool]]:
    """Yield every node, and whether it is inside a call of format()."""
    pending = [(root, False)]
    while pending:
        node, in_format = pending.pop()
        yield node, in_format
        inside = in_format or (isinstance(node, nodes.Call) and node.function == "format")
        pending.extend((child, inside) for child in nodes.children(node))


def _check_call(node: nodes.Call, issues: errors.IssueLog) -> None:
    if node.function == "format":
        _check_format(node, issues)
    argument = node.args[0] if node.args else None
    if isinstance(argument, nodes.Literal) and not _is_valid(node, argument.value):
        issues.report(argument.offset, f"invalid {node.function} argument")


def _is_valid(node: nodes.Call, value: Any) -> bool:
    """Return whether a literal can be the first argument of this call."""
    try:
        match node.function:
            case "duration" if isinstance(value, str):
                times.parse_duration(value)
            case "duration":
                return False  # an int has no unit
            case "timestamp" if isinstance(value, str):
                times.parse_timestamp(value)
            case "timestamp" if isinstance(value, int):
                conversions.int_to_timestamp(value)
            case "matches" if node.target is not None and isinstance(value, str):
                regex.compile_regex(value)
            case _:
                pass
    except (ValueError, errors.EvaluationError):
        return False
    return True


def _check_list(node: nodes.ListLiteral, issues: errors.IssueLog) -> None:
    parts = [
        (element, _inner(element.type, optional=index in node.optional_indices))
        for index, element in enumerate(node.elements)
    ]
    _check_alike(parts, issues, first_only=True)


def _check_map(node: nodes.MapLiteral, issues: errors.IssueLog) -> None:
    _check_alike([(entry.key, entry.key.type) for entry in node.entries], issues)
    entry_values = [(entry.value, _inner(entry.value.type, optional=entry.optional)) for entry in node.entries]
    _check_alike(entry_values, issues)


def _inner(cel_type: CelType, *, optional: bool) -> CelType:
    return unification.unwrap_optional(cel_type)[0] if optional else cel_type


def _check_alike(
    parts: Sequence[tuple[nodes.Expr, CelType]], issues: errors.IssueLog, *, first_only: bool = False
) -> None:
    for node, cel_type in parts[1:]:
        expected = parts[0][1]
        if cel_type != expected:
            issues.report(node.offset, f"expected type '{expected}' but found '{cel_type}'")
            if first_only:
                return


def _check_format(node: nodes.Call, issues: errors.IssueLog) -> None:
    target = node.target
    if not isinstance(target, nodes.Literal) or not isinstance(target.value, str):
        return
    if len(node.args) != 1 or not isinstance(node.args[0], nodes.ListLiteral):
        return
    elements = node.args[0].elements
    used = 0
    try:
        for piece in formatting.pieces(target.value):
            if isinstance(piece, str):
                continue
            if used >= len(elements):
                issues.report(node.offset, f"index {used} out of range")
                return
            element = elements[used]
            used += 1
            wrong = _unprintable(element, piece)
            if wrong is not None:
                text = formatting.complaint(piece, wrong.type.name)
                issues.report(wrong.offset, f"error during formatting: {text}")
                return
    except errors.EvaluationError as error:
        issues.report(node.offset, str(error))
        return
    if used < len(elements):
        text = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
        issues.report(node.offset, text)


def _unprintable(node: nodes.Expr, clause: formatting.Clause) -> nodes.Expr | None:
    """Return the node that a clause cannot print, also inside literals."""
    if node.type.kind is not types.Kind.DYN and not formatting.accepts(clause, node.type):
        return node
    if clause.verb != "s" or not isinstance(node, nodes.ListLiteral | nodes.MapLiteral):
        return None
    for child in nodes.children(node):
        wrong = _unprintable(child, clause)
        if wrong is not None:
            return wrong
    return None
