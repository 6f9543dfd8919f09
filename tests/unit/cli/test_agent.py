from __future__ import annotations

import pathlib

import pytest

from fairlead.base.environment import Environment
from fairlead.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--registry-dir", "/" + "f" * 80], "it may have at most 80, because the path of a unix socket"),
        (["--node-name=Not A Node"], "is no node's name"),
        (["--driver-wait-timeout=0s"], "must be positive"),
        (["--finished-event-ttl=-1s"], "must be positive"),
        (["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", *arguments], environment=Environment({})) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s\n",
            "shutdownGracePeriodCriticalPods 20s must be <= shutdownGracePeriod 10s",
        ),
        ("shutdownGracePeriod: 500ms\n", "shutdownGracePeriod 500ms must be either zero or otherwise >= 1 sec"),
        ("shutdownGracePeriod: -5s\n", "shutdownGracePeriod -5s must be either zero or otherwise >= 1 sec"),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}, {priority: 1}]\n",
            "shutdownGracePeriodByPodPriority[1].priority 1 is there twice",
        ),
        (
            "shutdownGracePeriod: 5s\nshutdownGracePeriodByPodPriority: [{priority: 1}]\n",
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        ),
        ("gracePeriod: 5s\n", "unknown field 'gracePeriod'"),
    ],
)
def test_a_bad_config_is_refused_at_the_start_by_field(
    config: str, words: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(config)
    assert main(["agent", "--config", str(path)], environment=Environment({})) == 2
    assert words in capsys.readouterr().err


def test_a_config_for_shutdowns_needs_its_gate(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("shutdownGracePeriod: 5s\n")
    arguments = ["agent", "--config", str(path), "--feature-gates=GracefulNodeShutdown=false"]
    assert main(arguments, environment=Environment({})) == 2
    assert "requires feature gate GracefulNodeShutdown" in capsys.readouterr().err
