"""The command, campaigns, and failures: their output, shrinking and interrupts."""

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
from kube_fairlead_lab.sim.action_plan import plan
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
    assert result.output.startswith("seed 3: passed; ")


def test_one_seed_prints_one_line(scenario: str) -> None:
    arguments = [sys.executable, "-m", "kube_fairlead.cli", "sim", "--seed", "3", "--scenario", scenario]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1


def test_several_seeds_print_the_first_one_at_the_start(scenario: str) -> None:
    result = CliRunner().invoke(command, ["--seed", "3", "--seeds", "2", "--scenario", scenario], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert result.output.startswith("first seed: 3\n2 seeds from 3: 0 failed, ")


def test_a_failed_seed_among_several_is_reported_and_explained(tmp_path: pathlib.Path) -> None:
    hasty = tmp_path / "hasty.yaml"
    hasty.write_text(f"{FILE}calm_minutes: 0.01\n")  # too short for any event to finish
    arguments = ["--seed", "3", "--seeds", "2", "--jobs", "2", "--scenario", str(hasty)]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.return_value == 1, result.output
    first, *lines = result.output.splitlines()
    assert first == "first seed: 3"
    broken = [line.partition(":")[0] for line in lines if " FAILED liveness: event " in line]
    assert sorted(broken) == ["seed 3", "seed 4"]
    assert "2 seeds from 3: 2 failed, 0 with enough events and faults" in lines
    assert f"repeat: sim --seed {broken[0].removeprefix('seed ')} --scenario {hasty}" in lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seeds", "2", "--history"], "--steps, --only and --history need a single seed"),
        (["--for", "1s", "--only", "1", "--seed", "1"], "--steps, --only and --history need a single seed"),
        (["--twice", "--steps", "3"], "--steps, --only and --history need a single seed"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--seeds", "0"], "Invalid value for '--seeds'"),
        (["--jobs", "0"], "Invalid value for '--jobs'"),
        (["--steps", "-1"], "Invalid value for '--steps'"),
        (["--for", "0s"], "Invalid value for '--for'"),
        (["--for", "soon"], "Invalid value for '--for'"),
        (["--only", "3"], "--only selects actions of one seed: --seed is required"),
        (["--seed", "3", "--only", ""], "Invalid value for '--only': '' is not a number"),
        (["--seed", "3", "--only", "1,two"], "Invalid value for '--only': 'two' is not a number"),
        (["--seed", "3", "--only", "0"], "Invalid value for '--only': '0' is not a range of numbers from 1 up"),
        (["--seed", "3", "--only", "5-2"], "Invalid value for '--only': '5-2' is not a range"),
        (["--seed", "3", "--only", "1-99999999999"], "Invalid value for '--only': '1-99999999999' is not a range"),
        (["--seed", "3", "--only", "2,9999"], "--only: no action 9999; seed 3 has"),
        (["--seed", "3", "--steps", "2", "--only", "3"], "--only: no action 3; seed 3 has 2 actions"),
        (["--scenario", ""], "Invalid value for '--scenario'"),
        (["--scenario", "/no/such/file"], "Invalid value for '--scenario'"),
    ],
)
def test_invalid_flags_are_rejected(arguments: list[str], words: str, scenario: str) -> None:
    given = arguments if "--scenario" in arguments else [*arguments, "--scenario", scenario]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 2
    assert words in result.output


def test_a_bad_scenario_is_named(tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("nodes: many\n")
    arguments = CliRunner().invoke(command, ["--scenario", str(bad)])
    assert arguments.exit_code == 2
    assert f"scenario {bad}: Expected `int`" in arguments.output


def test_both_limits_apply(scenario: str) -> None:
    arguments = ["--seed", "3", "--seeds", "1", "--for", "10m", "--scenario", scenario]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert "\n1 seeds from 3: 0 failed, " in result.output


def test_each_seed_is_the_same_in_another_process() -> None:
    report = campaign.play(1, TINY, seeds=2, twice=True)
    assert report.seeds == 2
    assert not report.failures
    assert str(report).startswith("2 seeds from 1: 0 failed, ")


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    next(one for one in MUTANTS if one.name == MUTANT).apply(monkeypatch)


def test_a_failure_shows_what_led_to_it(monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    broken(monkeypatch)
    result = CliRunner().invoke(command, ["--seed", "1", "--scenario", scenario], standalone_mode=False)
    assert result.return_value == 1
    verdict, *lines = result.output.splitlines()
    name = re.match(r"seed 1: FAILED 3: event (e-\d+) lost its finalizer while Claimed; ", verdict)
    assert name is not None, verdict
    history = [line.split(None, 2) for line in lines if re.match(r" +\d+\.\d{6}  ", line)]
    times = [float(at) for at, _, _ in history]
    assert times == sorted(times)
    assert [who for _, who, what in history if what.startswith(f"creates event {name[1]} ")] == ["user"]
    (claimed,) = [who for _, who, what in history if "claimStatus Pending -> Claimed" in what and name[1] in what]
    assert claimed.startswith("agent-node-")
    loses = f"event {name[1]} .*: removes finalizer lifecycle.k8s.io/claimed"
    assert [who for _, who, what in history if re.match(loses, what)] == [claimed]
    assert history[-1][1] == "checker"
    assert f"repeat: sim --seed 1 --scenario {scenario}" in lines

    arguments = ["--seed", "1", "--scenario", scenario, "--history"]
    whole = CliRunner().invoke(command, arguments, standalone_mode=False).output.splitlines()
    left_out = re.search(r"(\d+) other lines omitted", result.output)
    assert left_out is not None
    assert int(left_out[1]) + len(history) == sum(bool(re.match(r" +\d+\.\d{6}  ", line)) for line in whole)
    assert any(line.startswith(verdict) for line in whole)


def test_a_failure_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
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


def mutated(*arguments: str) -> list[str]:
    """The command with a mutant of the product, in its own process."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import importlib, pytest\n"
        "from kube_fairlead.cli.main import main\n"
        "from tests.sim.mutants.registry import MUTANTS\n"
        "importlib.import_module('tests.sim.mutants.lifecycle')\n"
        f"next(one for one in MUTANTS if one.name == {MUTANT!r}).apply(pytest.MonkeyPatch())\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return [sys.executable, "-c", program, "sim", *arguments]


def test_a_shrunk_failure_can_be_repeated(scenario: str) -> None:
    arguments = ["--seed", "1", "--scenario", scenario, "--shrink"]
    shrunk = subprocess.run(mutated(*arguments), capture_output=True, text=True, check=False)
    assert shrunk.returncode == 1, shrunk.stderr
    assert "shrinking: " in shrunk.stderr
    _, cut_down = [line for line in shrunk.stdout.splitlines() if line.startswith("seed 1: FAILED 3")]
    command_line = shrunk.stdout.rstrip().splitlines()[-1]
    assert command_line.startswith(f"repeat: fairlead sim --seed 1 --scenario {scenario} --steady-network --")
    again = subprocess.run(mutated(*shlex.split(command_line)[3:]), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert again.stdout.splitlines()[0] == cut_down  # with the same hash
    assert f"\n{command_line}\n" in again.stdout


def _wait_gone(group: int) -> None:
    """Wait until every process of the group has ended."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process is left")


def has_children(pid: int) -> bool:
    return bool(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())


def interrupted(arguments: list[str], sign: str, *, stream: str, is_group: bool) -> tuple[int, str, str]:
    """Send Ctrl-C after a line that contains `sign`; return the exit code and the output."""
    # A background process of a shell ignores Ctrl-C, and so do its children.
    heeding = ["env", "--default-signal=INT", *arguments]
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
            os.killpg(process.pid, signal.SIGKILL)  # it would run for days
            raise
        _wait_gone(process.pid)
    return process.returncode, seen + rest, rest_of_errors


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
@pytest.mark.parametrize("is_group", [True, False])
def test_seeds_can_be_interrupted(scenario: str, is_group: bool) -> None:
    arguments = ["sim", "--seed", "3", "--seeds", "100000", "--jobs", "2", "--scenario", scenario]
    code, out, err = interrupted(
        [sys.executable, "-m", "kube_fairlead.cli", *arguments], "first seed: 3", stream="stdout", is_group=is_group
    )
    assert code == 130
    assert "interrupted: unfinished seeds are not counted" in out
    assert " seeds from 3: 0 failed, " in out
    assert err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_shrinking_can_be_interrupted() -> None:
    code, out, err = interrupted(mutated("--seed", "1", "--shrink"), "shrinking: ", stream="stderr", is_group=True)
    assert code == 130
    assert re.search(r"actions cause the failure \(\d+ runs, interrupted\):", out)
    assert "repeat: fairlead sim --seed 1 " in out
    assert "Traceback" not in err
