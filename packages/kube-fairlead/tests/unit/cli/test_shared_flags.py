from __future__ import annotations

import logging
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.cli import shared_flags


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("fairlead")
    before = (list(root.handlers), root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


@click.command
@shared_flags.feature_gates
def gated(feature_gates: FeatureGates) -> None:
    click.echo(",".join(name for name, on in feature_gates.as_mapping().items() if not on))


def test_feature_gates_arrive_parsed() -> None:
    result = CliRunner().invoke(gated, ["--feature-gates=GracefulLeaderTransition=false"])
    assert (result.exit_code, result.output) == (0, "GracefulLeaderTransition\n")


def test_an_unknown_gate_is_bad_usage_and_lists_the_known() -> None:
    result = CliRunner().invoke(gated, ["--feature-gates=Nope=true"])
    assert result.exit_code == 2
    assert "unrecognized feature gate: Nope" in result.output
    assert "SpecializedLifecycleManagement" in result.output


@click.command
@shared_flags.logging
def logged() -> None:
    from kube_fairlead.base import logs

    logs.get_logger("probe").debug("small talk")
    logs.get_logger("probe").info("news", count=1)


@pytest.mark.usefixtures("untouched_logging")
@pytest.mark.parametrize(
    ("arguments", "lines", "begins"),
    [([], 1, "2"), (["-v", "4"], 2, "2"), (["-v=2", "--logging-format=json"], 1, "{"), (["--v=9"], 2, "2")],
)
def test_logging_options(arguments: list[str], lines: int, begins: str) -> None:
    result = CliRunner().invoke(logged, arguments)
    assert result.exit_code == 0
    assert len(result.stderr.splitlines()) == lines
    assert result.stderr.startswith(begins)


def test_verbosity_must_be_a_number() -> None:
    assert CliRunner().invoke(logged, ["-v", "loud"]).exit_code == 2
