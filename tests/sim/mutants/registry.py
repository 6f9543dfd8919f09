"""Mutants that the simulation must find: each one breaks the product in one place.

A mutant names the rules that may find it, and a seed that finds it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

Apply = Callable[[pytest.MonkeyPatch], None]


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    rules: frozenset[str]
    apply: Apply
    seed: int = 1  # the first seed to play


MUTANTS: list[Mutant] = []


def mutant(*rules: str, seed: int = 1) -> Callable[[Apply], Apply]:
    """Register a mutant. The first rule usually finds it; the others may."""

    def enter(apply: Apply) -> Apply:
        MUTANTS.append(Mutant(apply.__name__, frozenset(rules), apply, seed))
        return apply

    return enter
