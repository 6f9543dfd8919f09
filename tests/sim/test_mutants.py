"""Each mutant of the product is found by the simulation within a few seeds."""

from __future__ import annotations

import importlib

import pytest

from kube_fairlead_lab.sim.runner import run
from kube_fairlead_lab.sim.scenario import Scenario
from tests.sim.mutants.registry import MUTANTS, Mutant

for part in ("clouds", "duties", "later", "lifecycle", "pods", "server"):
    importlib.import_module(f"tests.sim.mutants.{part}")

SEEDS = 8


@pytest.mark.parametrize("number", range(1, 11))
def test_every_invariant_has_three_mutants(number: int) -> None:
    assert sum(str(number) in mutant.rules for mutant in MUTANTS) >= 3


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    for seed in range(mutant.seed, mutant.seed + SEEDS):
        violation = run(seed, Scenario()).violation
        if violation is not None:
            assert violation.rule in mutant.rules, violation
            return
    pytest.fail(f"not found in {SEEDS} seeds")
