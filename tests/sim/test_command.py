"""What people see of it: the command, campaigns, and a failure that is cut down to what matters."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from kube_fairlead_lab.commands.sim import command
from kube_fairlead_lab.sim import campaign
from kube_fairlead_lab.sim.plan import plan
from kube_fairlead_lab.sim.runner import run
from kube_fairlead_lab.sim.scenario import Scenario
from kube_fairlead_lab.sim.shrinker import is_same_kind, shrink
from tests.sim.mutants.registry import MUTANTS

importlib.import_module("tests.sim.mutants.lifecycle")

ROOT = pathlib.Path(__file__).parents[2]
MUTANT = "lets_go_before_the_end_is_stored"

TINY = Scenario(nodes=2, managers=1, chaos_minutes=0.3, events_per_minute=20.0)
FILE = "nodes: 2\nmanagers: 1\nchaos_minutes: 0.3\nevents_per_minute: 20\n"


@pytest.fixture
def scenario(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(FILE)
    return str(path)


def test_one_seed(scenario: str) -> None:
    result = CliRunner().invoke(command, ["--seed", "3", "--scenario", scenario], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert result.output.startswith("seed 3: holds; ")


def test_nothing_but_the_verdict_is_said(scenario: str) -> None:
    asked = [sys.executable, "-m", "kube_fairlead.cli", "sim", "--seed", "3", "--scenario", scenario]
    result = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1


def test_several_seeds_name_the_first_one_before_they_begin(scenario: str) -> None:
    result = CliRunner().invoke(command, ["--seed", "3", "--seeds", "2", "--scenario", scenario], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert result.output.startswith("from seed 3 on\n2 seeds from 3: 0 broken, ")


def test_a_broken_seed_among_several_is_told_and_explained(tmp_path: pathlib.Path) -> None:
    hasty = tmp_path / "hasty.yaml"
    hasty.write_text(f"{FILE}calm_minutes: 0.01\n")  # nobody could come to an end by then
    asked = ["--seed", "3", "--seeds", "2", "--jobs", "2", "--scenario", str(hasty)]
    result = CliRunner().invoke(command, asked, standalone_mode=False)
    assert result.return_value == 1, result.output
    first, *lines = result.output.splitlines()
    assert first == "from seed 3 on"
    broken = [line.partition(":")[0] for line in lines if " BROKEN liveness: event " in line]
    assert sorted(broken) == ["seed 3", "seed 4"]
    assert "2 seeds from 3: 2 broken, 0 with enough going on" in lines
    assert f"again: sim --seed {broken[0].removeprefix('seed ')} --scenario {hasty}" in lines


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--seeds", "2", "--history"], "--steps, --only and --history are for one seed"),
        (["--for", "1s", "--only", "1", "--seed", "1"], "--steps, --only and --history are for one seed"),
        (["--twice", "--steps", "3"], "--steps, --only and --history are for one seed"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--seeds", "0"], "Invalid value for '--seeds'"),
        (["--jobs", "0"], "Invalid value for '--jobs'"),
        (["--steps", "-1"], "Invalid value for '--steps'"),
        (["--for", "0s"], "Invalid value for '--for'"),
        (["--for", "soon"], "Invalid value for '--for'"),
        (["--only", "3"], "--only is about the actions of one seed; give --seed"),
        (["--seed", "3", "--only", ""], "Invalid value for '--only': '' is no number"),
        (["--seed", "3", "--only", "1,two"], "Invalid value for '--only': 'two' is no number"),
        (["--seed", "3", "--only", "0"], "Invalid value for '--only': '0' is no range of numbers from 1 on"),
        (["--seed", "3", "--only", "5-2"], "Invalid value for '--only': '5-2' is no range"),
        (["--seed", "3", "--only", "1-99999999999"], "Invalid value for '--only': '1-99999999999' is no range"),
        (["--seed", "3", "--only", "2,9999"], "--only: there is no action 9999; seed 3 has"),
        (["--seed", "3", "--steps", "2", "--only", "3"], "--only: there is no action 3; seed 3 has 2 of them"),
        (["--scenario", ""], "Invalid value for '--scenario'"),
        (["--scenario", "/no/such/file"], "Invalid value for '--scenario'"),
    ],
)
def test_what_cannot_be_asked(asked: list[str], words: str, scenario: str) -> None:
    given = asked if "--scenario" in asked else [*asked, "--scenario", scenario]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 2
    assert words in result.output


def test_a_bad_scenario_is_named(tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("nodes: many\n")
    asked = CliRunner().invoke(command, ["--scenario", str(bad)])
    assert asked.exit_code == 2
    assert f"scenario {bad}: Expected `int`" in asked.output


def test_both_limits_count(scenario: str) -> None:
    asked = ["--seed", "3", "--seeds", "1", "--for", "10m", "--scenario", scenario]
    result = CliRunner().invoke(command, asked, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert "\n1 seeds from 3: 0 broken, " in result.output


def test_each_seed_is_the_same_in_another_process() -> None:
    report = campaign.play(1, TINY, seeds=2, twice=True)
    assert report.seeds == 2
    assert not report.failures
    assert str(report).startswith("2 seeds from 1: 0 broken, ")


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    next(one for one in MUTANTS if one.name == MUTANT).apply(monkeypatch)


def test_a_failure_tells_what_led_to_it(monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    broken(monkeypatch)
    result = CliRunner().invoke(command, ["--seed", "1", "--scenario", scenario], standalone_mode=False)
    assert result.return_value == 1
    verdict, *lines = result.output.splitlines()
    name = re.match(r"seed 1: BROKEN 3: event (e-\d+) lost its finalizer while Claimed; ", verdict)
    assert name is not None, verdict
    history = [line.split(None, 2) for line in lines if re.match(r" +\d+\.\d{6}  ", line)]
    times = [float(at) for at, _, _ in history]
    assert times == sorted(times)
    assert [who for _, who, what in history if what.startswith(f"makes event {name[1]} ")] == ["user"]
    (claimed,) = [who for _, who, what in history if "claimStatus Pending -> Claimed" in what and name[1] in what]
    assert claimed.startswith("agent-node-")
    loses = f"event {name[1]} .*: loses finalizer lifecycle.k8s.io/claimed"
    assert [who for _, who, what in history if re.match(loses, what)] == [claimed]
    assert history[-1][1] == "checker"
    assert f"again: sim --seed 1 --scenario {scenario}" in lines

    asked = ["--seed", "1", "--scenario", scenario, "--history"]
    whole = CliRunner().invoke(command, asked, standalone_mode=False).output.splitlines()
    left_out = re.search(r"(\d+) other lines are left out", result.output)
    assert left_out is not None
    assert int(left_out[1]) + len(history) == sum(bool(re.match(r" +\d+\.\d{6}  ", line)) for line in whole)
    assert any(line.startswith(verdict) for line in whole)


def test_a_failure_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    actions = plan(1, TINY)
    failed = run(1, TINY, actions)
    assert failed.violation is not None
    shrunk = shrink(failed, TINY, actions, most_runs=8)
    assert shrunk.outcome.violation is not None
    assert is_same_kind(shrunk.outcome.violation, failed.violation)
    assert 0 < len(shrunk.actions) < len(actions)
    assert shrunk.runs <= 8
    again = run(1, shrunk.scenario, shrunk.actions)
    assert again.digest == shrunk.outcome.digest
    assert again.history == shrunk.outcome.history


def spoilt(*asked: str) -> list[str]:
    """The command with a mistake in the product, in a process of its own."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import importlib, pytest\n"
        "from kube_fairlead.cli.main import main\n"
        "from tests.sim.mutants.registry import MUTANTS\n"
        "importlib.import_module('tests.sim.mutants.lifecycle')\n"
        f"next(one for one in MUTANTS if one.name == {MUTANT!r}).apply(pytest.MonkeyPatch())\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return [sys.executable, "-c", program, "sim", *asked]


def test_what_is_left_can_be_played_again(scenario: str) -> None:
    asked = ["--seed", "1", "--scenario", scenario, "--shrink"]
    shrunk = subprocess.run(spoilt(*asked), capture_output=True, text=True, check=False)
    assert shrunk.returncode == 1, shrunk.stderr
    assert "shrinking: after " in shrunk.stderr
    _, cut_down = [line for line in shrunk.stdout.splitlines() if line.startswith("seed 1: BROKEN 3")]
    command_line = shrunk.stdout.rstrip().splitlines()[-1]
    assert command_line.startswith(f"again: fairlead sim --seed 1 --scenario {scenario} --steady-network --")
    again = subprocess.run(spoilt(*shlex.split(command_line)[3:]), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert again.stdout.splitlines()[0] == cut_down  # the hash, too
    assert f"\n{command_line}\n" in again.stdout


def _wait_gone(group: int) -> None:
    """Nobody plays on."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("somebody is left")


def has_children(pid: int) -> bool:
    return bool(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())


def interrupted(asked: list[str], sign: str, *, stream: str, is_group: bool) -> tuple[int, str, str]:
    """Send Ctrl-C as soon as a line with the sign is there; the exit code and what was printed."""
    # Who runs in the background of a shell ignores Ctrl-C, and so would its children.
    heeding = ["env", "--default-signal=INT", *asked]
    with subprocess.Popen(
        heeding, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        out, err = process.stdout, process.stderr
        assert out is not None
        assert err is not None
        try:
            seen = ""
            while sign not in seen:
                line = (out if stream == "stdout" else err).readline()
                assert line, seen
                seen += line
            while not has_children(process.pid):
                time.sleep(0.02)
            (os.killpg if is_group else os.kill)(process.pid, signal.SIGINT)
            rest, rest_of_errors = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # it would play for days
            raise
        _wait_gone(process.pid)
    return process.returncode, seen + rest, rest_of_errors


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
@pytest.mark.parametrize("is_group", [True, False])
def test_seeds_can_be_interrupted(scenario: str, is_group: bool) -> None:
    asked = ["sim", "--seed", "3", "--seeds", "100000", "--jobs", "2", "--scenario", scenario]
    code, out, err = interrupted(
        [sys.executable, "-m", "kube_fairlead.cli", *asked], "from seed 3 on", stream="stdout", is_group=is_group
    )
    assert code == 130
    assert "interrupted: seeds that were under way are not counted" in out
    assert " seeds from 3: 0 broken, " in out
    assert err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_shrinking_can_be_interrupted() -> None:
    code, out, err = interrupted(spoilt("--seed", "1", "--shrink"), "shrinking: after", stream="stderr", is_group=True)
    assert code == 130
    assert re.search(r"actions are enough \(\d+ runs, interrupted\):", out)
    assert "again: fairlead sim --seed 1 " in out
    assert "Traceback" not in err
