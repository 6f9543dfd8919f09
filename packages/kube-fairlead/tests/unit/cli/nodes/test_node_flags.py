from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import drain, driver
from kube_fairlead.cli.main import main
from kube_fairlead.cli.nodes import node_flags
from kube_fairlead.lifecycle.drain import options


def parsed(command: click.Command, *words: str) -> dict[str, Any]:
    return command.make_context("probe", list(words)).params


@pytest.mark.parametrize(
    ("words", "force"),
    [
        (["n"], False),
        (["--force", "n"], True),
        (["n", "--force"], True),
        (["--force=true", "n"], True),
        (["--force=0", "n"], False),
        (["--force", "--force=false", "n"], False),
    ],
)
def test_booleans_are_spelt_as_kubectls(words: list[str], force: bool) -> None:
    got = parsed(drain.command, *words)
    assert got["force"] is force
    assert got["nodes"] == ("n",)


def test_a_boolean_that_is_none_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="invalid boolean value 'maybe'"):
        parsed(drain.command, "--force=maybe", "n")


def test_what_follows_two_dashes_is_left_alone() -> None:
    assert parsed(drain.command, "n", "--", "--force=false")["nodes"] == ("n", "--force=false")


@pytest.mark.parametrize("text", ["n", "node/n", "nodes/n", "no/n", "NODE/n", "nodes.v1./n"])
def test_a_node_may_be_named_as_kubectl_takes_it(text: str) -> None:
    assert parsed(drain.command, text)["nodes"] == ("n",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("node/a/b", "may not have more than one slash"),
        ("node/", "must have a single resource and name"),
        ("/n", "must have a single resource and name"),
        ("pod/n", "expected resource of type node, got 'pod'"),
        ("..", "invalid resource name"),
        ("", "resource name may not be empty"),
    ],
)
def test_what_names_no_node_is_refused_in_kubectls_words(text: str, problem: str) -> None:
    with pytest.raises(click.BadParameter, match=problem):
        parsed(drain.command, text)


def test_the_command_has_kubectls_defaults_and_the_driver_the_proposals() -> None:
    assert node_flags.drain_options(parsed(drain.command, "n")) == options.KUBECTL
    assert node_flags.drain_options(parsed(driver.drain)) == options.PROFILE


def test_every_flag_reaches_the_options() -> None:
    words = [
        "--force",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--grace-period=7",
        "--timeout=1m30s",
        "--pod-selector=app=web",
        "--disable-eviction",
        "--skip-wait-for-delete-timeout=9",
        "--priority-groups=0,1000",
    ]
    spelt = options.spell(node_flags.drain_options(parsed(drain.command, "n", *words)))
    assert spelt == {
        "force": "true",
        "ignore-daemonsets": "true",
        "delete-emptydir-data": "true",
        "grace-period": "7",
        "timeout": "1m30s",
        "pod-selector": "app=web",
        "disable-eviction": "true",
        "skip-wait-for-delete-timeout": "9",
        "priority-groups": "0,1000",
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["drain"], "set NODE or --selector"),
        (["drain", "n", "-l", "a=b"], "cannot specify both a node name and a --selector option"),
        (["drain", "n", "--timeout=soon"], "--timeout: 'soon'"),
        (["drain", "n", "--pod-selector=a in b"], "--pod-selector: 'a in b'"),
        (["drain", "n", "--max-unavailable=0"], "0 is not in the range x>=1"),
        (["drain", "n", "--dry-run=yes"], "'yes' is not one of 'none', 'client', 'server'"),
        (["uncordon"], "set NODE or --selector"),
        (["maintain", "n"], "a COMMAND is required, because standard input is not a terminal"),
    ],
)
def test_bad_usage(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words, environment=Environment({})) == 2
    assert problem in " ".join(capsys.readouterr().err.split())


def test_help_names_a_command_that_may_follow() -> None:
    from kube_fairlead.cli import maintain

    assert "[-- COMMAND...]" in CliRunner().invoke(maintain.command, ["--help"]).output


@pytest.mark.parametrize(
    ("words", "nodes", "problem"),
    [
        (["--no-wait"], 1, ""),
        ([], 3, ""),
        (["--per-zone=1"], 3, ""),
        (["--no-wait", "--max-unavailable=3"], 3, ""),
        (["--no-wait"], 3, "--max-unavailable allows 1; omit --no-wait, or set --max-unavailable=3"),
        (["--no-wait", "--max-unavailable=9", "--per-zone=1"], 3, "which --per-zone forbids"),
    ],
)
def test_who_does_not_wait_holds_no_node_back(words: list[str], nodes: int, problem: str) -> None:
    given = parsed(drain.command, *words, "n")
    if not problem:
        node_flags.check_waiting(given, nodes=nodes)
        return
    with pytest.raises(click.UsageError, match=problem):
        node_flags.check_waiting(given, nodes=nodes)


def test_maintenance_that_cannot_be_run_is_refused_before_a_node_is_drained(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["maintain", "n", "--", "no-such-program", "{}"], environment=Environment({"PATH": "/usr/bin:/bin"})) == 2
    )
    assert "program 'no-such-program' not found" in capsys.readouterr().err
