from __future__ import annotations

import pathlib

import msgspec
import pytest

from kube_fairlead_lab.sim.action_plan import FAULTS, plan
from kube_fairlead_lab.sim.runner import Outcome, run
from kube_fairlead_lab.sim.scenario import Scenario, read_scenario

# Short, so that a few fit into every test run; `make sim` plays the default scenario.
SHORT = Scenario(nodes=3, chaos_minutes=2.0, events_per_minute=12.0)
# Seeds that found a bug once. Each bug also has a test of its own, because a seed has another history when the
# simulation changes.
ONCE_FAILED = (
    *(2, 3, 103, 118, 2004, 10021, 20001, 1000102, 2000194, 3000161, 5000008, 5000044, 6000161, 7000152, 7000244),
    *(8000022, 8000070, 9200018, 10000186, 12000175, 13000102, 13000213, 494485870, 494485885),
)
ONCE_FAILED_AT_A_HUNDRED = (1015, 1133, 1148, 1171)
HUNDRED = pathlib.Path(__file__).with_name("hundred-nodes.yaml")


def _printed(outcome: Outcome) -> str:
    return "\n".join(map(str, outcome.history))


@pytest.mark.parametrize("seed", [11, 12])
def test_a_seed_passes_and_has_the_same_history_twice(seed: int) -> None:
    first, second = run(seed, SHORT, with_history=True), run(seed, SHORT, with_history=True)
    assert first.violation is None, _printed(first)
    assert first.history == second.history
    assert first.digest == second.digest
    assert len(first.history) > 100
    assert first.counts["finished events"] >= 10
    assert first.faults.total() >= 10


def test_steps_select_the_first_actions() -> None:
    actions = plan(11, SHORT)
    few = run(11, SHORT, actions[:5])
    assert few.violation is None
    assert sum(few.faults[kind] for kind in FAULTS) == sum(action.kind in FAULTS for action in actions[:5])


def test_a_run_without_faults() -> None:
    faultless = msgspec.structs.replace(SHORT, network=None)
    outcome = run(11, faultless, [action for action in plan(11, faultless) if action.kind not in FAULTS])
    assert outcome.violation is None
    assert outcome.faults.total() == 0
    assert outcome.counts["finished events"] >= 10


@pytest.mark.long
@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_failed_once_passes(seed: int) -> None:
    outcome = run(seed, Scenario())
    assert outcome.violation is None, _printed(outcome)
    assert outcome.counts_as_run


@pytest.mark.long
@pytest.mark.parametrize("seed", ONCE_FAILED_AT_A_HUNDRED)
def test_a_seed_that_failed_once_at_a_hundred_nodes_passes(seed: int) -> None:
    outcome = run(seed, read_scenario(HUNDRED))
    assert outcome.violation is None, _printed(outcome)
    assert outcome.counts_as_run
