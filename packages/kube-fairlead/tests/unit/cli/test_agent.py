from __future__ import annotations

import contextlib
import logging
import pathlib

import click
import pytest

from kube_fairlead.agent.windows.control import ServiceState, Status
from kube_fairlead.agent.windows.service import Service
from kube_fairlead.base import logs
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.cli import agent, windows_service
from kube_fairlead.cli.main import main
from tests.unit.agent.windows.fakemanager import FakeCalls


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--registry-dir", "/" + "f" * 80], "it may have at most 80, because the path of a unix socket"),
        (["--node-name=Not A Node"], "is not a valid node name"),
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
            "shutdownGracePeriodByPodPriority[1].priority 1 is a duplicate",
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


@pytest.mark.parametrize(
    "arguments", [["--windows-service"], ["install-service", "--config=x"], ["remove-service"]], ids=lambda one: one[0]
)
def test_what_only_windows_has_is_refused_elsewhere(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", *arguments], environment=Environment({})) == 2
    assert f"{arguments[0]} works on Windows only" in capsys.readouterr().err


def test_what_only_windows_has_is_not_offered_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--help"], environment=Environment({})) == 0
    said = capsys.readouterr().out
    assert "service" not in said.replace("LifecycleTransition", "")
    assert "Usage: fairlead agent [OPTIONS]\n" in said


def test_the_windows_gate_depends_on_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    contradiction = "--feature-gates=GracefulNodeShutdown=false,WindowsGracefulNodeShutdown=true"
    assert main(["agent", contradiction], environment=Environment({})) == 2
    assert "depends on features that are disabled: GracefulNodeShutdown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "is_a_service", "words"),
    [
        ("", True, ""),
        ("", False, "this process is not a Windows service"),
        ("WindowsGracefulNodeShutdown=false", True, "WindowsGracefulNodeShutdown is disabled"),
        ("GracefulNodeShutdown=false", True, "WindowsGracefulNodeShutdown is disabled"),
    ],
)
def test_on_windows_a_shutdown_is_heard_by_a_service_with_the_gate_on(
    flag: str, is_a_service: bool, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fairlead")
    service = Service(FakeCalls(), RealClock()) if is_a_service else None
    heard = agent._is_announced_on_windows({"feature_gates": FeatureGates.parse(flag)}, service)
    assert heard is (not words)
    assert words in caplog.text


def test_log_lines_go_to_a_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    config = tmp_path / "agent.yaml"
    config.write_text("gracePeriod: 5s\n")
    path = tmp_path / "logs" / "agent.log"
    try:
        arguments = ["agent", f"--log-file={path}", f"--config={config}", "--logging-format=json"]
        assert main(arguments, environment=Environment({})) == 2
        logs.get_logger("here").info("said")
    finally:
        for handler in [one for one in root.handlers if one not in handlers]:
            root.removeHandler(handler)
            handler.stream.close()  # type: ignore[attr-defined]  # ours has one
        root.setLevel(level)
    assert '"message": "said"' in path.read_text(encoding="utf-8")
    assert "said" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "code"), [(None, 0), (OSError("broken"), 1), (click.UsageError("wrong"), 2)], ids=["none", "1", "2"]
)
def test_how_the_agent_ends_is_the_services_exit_code(
    failure: Exception | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FakeCalls()

    def started(*, accepts_preshutdown: bool) -> Service:
        service = Service(calls, RealClock(), accepts_preshutdown=accepts_preshutdown)
        service.start()
        return service

    monkeypatch.setattr(windows_service, "_started", started)
    with (
        pytest.raises(type(failure)) if failure is not None else contextlib.nullcontext(),
        windows_service.running(wanted=True, accepts_preshutdown=True) as service,
    ):
        assert service is not None
        if failure is not None:
            raise failure
    assert calls.reports[-1] == Status(state=ServiceState.STOPPED, exit_code=code)
