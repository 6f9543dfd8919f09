"""What people see of it: the command, campaigns, and a failure that is cut down to what matters."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from fairlead.cli.sim import command
from fairlead.sim import campaign
from fairlead.sim.plan import plan
from fairlead.sim.running import run
from fairlead.sim.scenario import Scenario
from fairlead.sim.shrinking import shrink
from tests.sim.mutants.registry import MUTANTS

importlib.import_module("tests.sim.mutants.lifecycle")

TINY = Scenario(nodes=2, managers=1, chaos_minutes=0.3, events_per_minute=20.0)
FILE = "nodes: 2\nmanagers: 1\nchaos_minutes: 0.3\nevents_per_minute: 20\n"


@pytest.fixture
def scenario(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(FILE)
    return str(path)


def test_one_seed(scenario: str) -> None:
    told = CliRunner().invoke(command, ["--seed", "3", "--scenario", scenario], standalone_mode=False)
    assert told.return_value == 0, told.output
    assert told.output.startswith("seed 3: holds; ")


def test_nothing_but_the_verdict_is_said(scenario: str) -> None:
    asked = [sys.executable, "-m", "fairlead.cli", "sim", "--seed", "3", "--scenario", scenario]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    assert told.stdout.count("\n") == 1


def test_several_seeds_name_the_first_one_before_they_begin(scenario: str) -> None:
    told = CliRunner().invoke(command, ["--seed", "3", "--seeds", "2", "--scenario", scenario], standalone_mode=False)
    assert told.return_value == 0, told.output
    assert told.output.startswith("from seed 3 on\n2 seeds from 3: 0 broken, ")


def test_what_cannot_be_asked(scenario: str, tmp_path: pathlib.Path) -> None:
    asked = CliRunner().invoke(command, ["--seeds", "2", "--history", "--scenario", scenario])
    assert asked.exit_code == 2
    assert "--steps and --history are for one seed" in asked.output
    bad = tmp_path / "bad.yaml"
    bad.write_text("nodes: many\n")
    asked = CliRunner().invoke(command, ["--scenario", str(bad)])
    assert asked.exit_code == 2
    assert f"scenario {bad}: Expected `int`" in asked.output


def test_each_seed_is_the_same_in_another_process() -> None:
    report = campaign.play(1, TINY, seeds=2, twice=True)
    assert report.seeds == 2
    assert not report.failures
    assert str(report).startswith("2 seeds from 1: 0 broken, ")


def test_a_failure_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    next(one for one in MUTANTS if one.name == "lets_go_before_the_end_is_stored").apply(monkeypatch)
    deeds = plan(1, TINY)
    failed = run(1, TINY, deeds)
    assert failed.violation is not None
    shrunk = shrink(failed, TINY, deeds, most_runs=8)
    assert shrunk.outcome.violation is not None
    assert shrunk.outcome.violation.rule == failed.violation.rule == "3"
    assert 0 < len(shrunk.deeds) < len(deeds)
    assert shrunk.runs <= 8
