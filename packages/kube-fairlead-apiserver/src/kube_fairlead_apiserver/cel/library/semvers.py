"""Semantic versions: ``semver('1.2.3').isLessThan(semver('2.0.0'))``.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/semverlib.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/semver.go
"""

from __future__ import annotations

import functools
import re
from typing import Any

from kube_fairlead_apiserver.cel import errors, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, INT, STRING, CelType, Kind

__all__ = ["SEMVERS", "Semver"]

_SEMVER = CelType(Kind.OBJECT, "kubernetes.Semver")
_NUMBER = re.compile(r"[0-9]+")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_NUMBER_NAMES = ("major", "minor", "patch")


@functools.total_ordering
class Semver(values.Opaque):
    """A version. Comparisons ignore build metadata."""

    __slots__ = ("numbers", "prerelease")
    cel_type = _SEMVER

    def __init__(self, numbers: tuple[int, int, int], prerelease: tuple[int | str, ...]) -> None:
        self.numbers = numbers
        self.prerelease = prerelease

    def _order(self) -> tuple[Any, ...]:
        # A release follows its prereleases; numbers come before text.
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease)
        return (self.numbers, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __lt__(self, other: Semver) -> bool:
        return bool(self._order() < other._order())

    def __hash__(self) -> int:
        return hash(self._order())


def _number(text: str, name: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{name.capitalize()} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > values.UINT_MAX:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _prerelease_part(text: str) -> int | str:
    if not text:
        raise ValueError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return int(text) if len(text) <= 20 else text
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _parse(text: str) -> Semver:
    """Parse a version; a ValueError has the text of Kubernetes' parser."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    patch = parts[2]
    build: list[str] = []
    prerelease: list[str] = []
    if "+" in patch:
        patch, _, metadata = patch.partition("+")
        build = metadata.split(".")
    if "-" in patch:
        patch, _, words = patch.partition("-")
        prerelease = words.split(".")
    numbers = [_number(part, name) for part, name in zip((parts[0], parts[1], patch), _NUMBER_NAMES, strict=True)]
    identifiers = tuple(_prerelease_part(part) for part in prerelease)
    for part in build:
        if not part:
            raise ValueError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise ValueError(f'Invalid character(s) found in build meta data "{part}"')
    return Semver((numbers[0], numbers[1], numbers[2]), identifiers)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            trimmed = part.lstrip("0")
            parts[index] = trimmed if trimmed[:1].isdigit() else f"0{trimmed}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 -- a CEL argument, given by position
    try:
        return _parse(_normalized(text) if normalize else text)
    except ValueError as error:
        raise errors.EvaluationError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 -- as above
    try:
        _semver(text, normalize)
    except errors.EvaluationError:
        return False
    return True


def _part(index: int) -> Any:
    return lambda version: version.numbers[index]


SEMVERS = Library(
    "kubernetes.semver",
    overloads=(
        function("semver", (STRING,), _SEMVER, _semver, costs.traversal),
        function("semver", (STRING, BOOL), _SEMVER, _semver, costs.traversal),
        function("isSemver", (STRING,), BOOL, _is_semver, costs.traversal),
        function("isSemver", (STRING, BOOL), BOOL, _is_semver, costs.traversal),
        member("isGreaterThan", (_SEMVER, _SEMVER), BOOL, lambda left, right: left > right),
        member("isLessThan", (_SEMVER, _SEMVER), BOOL, lambda left, right: left < right),
        member("compareTo", (_SEMVER, _SEMVER), INT, lambda left, right: (left > right) - (left < right)),
        *(member(name, (_SEMVER,), INT, _part(index)) for index, name in enumerate(_NUMBER_NAMES)),
    ),
)
