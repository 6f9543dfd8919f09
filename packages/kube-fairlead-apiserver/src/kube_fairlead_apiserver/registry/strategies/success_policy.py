"""Validation of a job's successPolicy.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead.api import golang
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks

__all__ = ["validate_success_policy"]

_MAX_RULES: Final = 20
_MAX_INDEXES_BYTES: Final = 64 * 1024
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class _NoIndexes(ValueError):
    """Raised for an invalid list of indexes, with Kubernetes' text."""


def validate_success_policy(policy: Json, completions: int, path: FieldPath) -> list[FieldError]:
    """Each rule names indexes, how many of them, or both."""
    rules, at = policy.get("rules") or [], path.child("rules")
    problems: list[FieldError] = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        problems.append(FieldError.required(at, text))
    if len(rules) > _MAX_RULES:
        problems.append(FieldError.too_many(at, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        problems += _validate_rule(rule, completions, at.index(index))
    return problems


def _validate_rule(rule: Json, completions: int, path: FieldPath) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        return [FieldError.required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    problems: list[FieldError] = []
    named = 0
    if indexes is not None:
        at = path.child("succeededIndexes")
        if len(indexes.encode()) > _MAX_INDEXES_BYTES:
            problems.append(FieldError.too_long(at, "", _MAX_INDEXES_BYTES))
        try:
            named = _count_indexes(indexes, completions)
        except _NoIndexes as error:
            problems.append(FieldError.invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return problems
    problems += field_checks.not_negative(rule, path, "succeededCount")
    for limit, what in (
        (completions, "the number of specified completions"),
        (None if indexes is None else named, "the number of indexes in the specified succeededIndexes field"),
    ):
        if limit is not None and count > limit:
            text = f"must be less than or equal to {limit} ({what})"
            problems.append(FieldError.invalid(path.child("succeededCount"), count, text))
    return problems


def _count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a text such as `1,3-5`, which must be ascending."""
    total, last = 0, None
    for interval in text.split(",") if text else ():
        first, end = _parse_interval(interval, completions)
        if last is not None and last >= first:
            raise _NoIndexes(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise _NoIndexes(
            f"the fragment {golang.quote(text)} violates the requirement that an index interval can have at most two "
            "parts separated by '-'"
        )
    first, *others = [_parse_index(limit, completions) for limit in limits]
    if not others:
        return first, first
    if first >= others[0]:
        raise _NoIndexes(f"non-increasing order, previous: {first}, current: {others[0]}")
    return first, others[0]


def _parse_index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise _NoIndexes(f"cannot convert string to integer for index: {golang.quote(text)}")
    index = int(text)
    if index >= completions:
        raise _NoIndexes(f"too large index: {golang.quote(text)}")
    return index
