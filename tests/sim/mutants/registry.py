"""Mistakes that the simulation must find: each one breaks the product in one place.

A mutant names the rules by which it may be found, and a seed that finds it.
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
    seed: int = 1  # where the search begins


MUTANTS: list[Mutant] = []


def mutant(*rules: str, seed: int = 1) -> Callable[[Apply], Apply]:
    """Found by the first of the rules as a rule, but also by the others."""

    def enter(apply: Apply) -> Apply:
        MUTANTS.append(Mutant(apply.__name__, frozenset(rules), apply, seed))
        return apply

    return enter
