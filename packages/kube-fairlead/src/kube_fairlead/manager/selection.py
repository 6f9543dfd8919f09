"""Which controllers run, and under which lock: what `--controllers` and `--leader-elect-groups` say.

Upstream: k8s.io/controller-manager@v0.36.4/app/helper.go,
    k8s.io/controller-manager@v0.36.4/options/generic.go
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

__all__ = ["SelectionError", "parse_groups", "select"]

_ALL = "*"
_GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class SelectionError(ValueError):
    """A flag names what does not exist, or twice what can exist once."""


def select(wanted: Sequence[str], *, known: Mapping[str, bool]) -> list[str]:
    """The controllers that run, in the order in which they are known.

    Args:
        wanted: as upstream's flag: `*` is all that are on by default, `foo` is foo, `-foo` is not foo. The first
            mention of a name counts.
        known: every controller, and whether it is on by default.

    Raises:
        SelectionError: a name is not known.
    """
    for name in wanted:
        if name != _ALL and name.removeprefix("-") not in known:
            raise SelectionError(f'"{name}" is not in the list of known controllers: {", ".join(known)}')
    return [name for name, default in known.items() if _is_wanted(name, wanted, default=default)]


def _is_wanted(name: str, wanted: Sequence[str], *, default: bool) -> bool:
    for word in wanted:
        if word == name:
            return True
        if word == f"-{name}":
            return False
    return default and _ALL in wanted


def parse_groups(text: str, *, running: Collection[str]) -> dict[str, list[str]]:
    """Read `a=event-gc,stall;b=shutdown-observer`: each group's controllers, of those that run.

    A controller that no group names belongs to the last one, so that none is forgotten.

    Raises:
        SelectionError: the text cannot be read, or does not fit the controllers that run.
    """
    groups: dict[str, list[str]] = {}
    placed: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        group, separator, names = (piece.strip() for piece in part.partition("="))
        if not separator or not _GROUP_NAME.fullmatch(group):
            raise SelectionError(f"{part!r} is no group of controllers; write name=controller,controller")
        if group in groups:
            raise SelectionError(f"group {group} is named twice")
        groups[group] = []
        for name in filter(None, (name.strip() for name in names.split(","))):
            if name not in running:
                raise SelectionError(f"group {group} names {name}, which does not run; these do: {', '.join(running)}")
            if name in placed:
                raise SelectionError(f"{name} is in group {placed[name]} and cannot be in {group} too")
            placed[name] = group
            groups[group].append(name)
    if not groups:
        raise SelectionError("no group is named; write name=controller,controller;name=controller")
    groups[list(groups)[-1]] += [name for name in running if name not in placed]
    return groups
