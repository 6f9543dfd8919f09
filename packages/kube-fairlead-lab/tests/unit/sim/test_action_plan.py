from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kube_fairlead_lab.sim.action_plan import FAULTS, plan
from kube_fairlead_lab.sim.scenario import Faults, Scenario, ScenarioError, read_scenario


def test_every_rate_of_a_scenario_is_a_fault() -> None:
    assert set(FAULTS) == set(Faults.__struct_fields__)


def test_a_seed_always_has_the_same_plan() -> None:
    assert plan(1, Scenario()) == plan(1, Scenario())
    assert plan(1, Scenario()) != plan(2, Scenario())
    assert plan(1, Scenario()) == sorted(plan(1, Scenario()))
    assert plan(1, Scenario(), 7) == plan(1, Scenario())[:7]


def test_without_one_kind_the_others_stay_in_place() -> None:
    whole = plan(5, Scenario())
    without = msgspec.structs.replace(Scenario(), faults=Faults(pause=0.0))
    assert plan(5, without) == [action for action in whole if action.kind != "pause"]


def test_actions_follow_the_rates_of_the_scenario() -> None:
    scenario = Scenario(chaos_minutes=1000.0)
    kinds = [action.kind for action in plan(1, scenario)]
    assert set(kinds) == {*FAULTS, "event_wanted", "event_unwanted", "thing_touched", "maintenance_wanted"}
    assert kinds.count("event_wanted") == pytest.approx(1000 * scenario.events_per_minute, rel=0.1)


def test_scenarios_are_read(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("nodes: 3\nnetwork: null\nfaults: {server_crash: 2}\n")
    scenario = read_scenario(path)
    assert (scenario.nodes, scenario.network, scenario.faults.server_crash) == (3, None, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: many", r"Expected `int`, got `str` - at `\$.nodes`"),
        ("nods: 3", "nods"),
        ("faults: {rain: 1}", "rain"),
        ("[", "scenario"),
        ("nodes: 0", r"Expected `int` >= 1 - at `\$.nodes`"),
        ("nodes: 99999999", r"Expected `int` <= 1000 - at `\$.nodes`"),
        ("managers: 0", r"managers"),
        ("chaos_minutes: -1", r"Expected `float` > 0.0 - at `\$.chaos_minutes`"),
        ("chaos_minutes: .nan", "line 1, column 16: json: unsupported value: NaN"),
        ("chaos_minutes: .inf", "line 1, column 16: json: unsupported value"),
        ("calm_minutes: 0", r"calm_minutes"),
        ("events_per_minute: -3", r"events_per_minute"),
        ("network: {request_lost: 5}", r"Expected `float` <= 1.0 - at `\$.network.request_lost`"),
        ("faults: {pause: -1}", r"faults.pause"),
        ("faults: {pause: .inf}", "line 1, column 17: json: unsupported value"),
    ],
)
def test_invalid_scenarios_are_rejected_by_field(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=words):
        read_scenario(path)
