from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.agent.shutdown.configuration import kubelet_is_configured, read_config
from kube_fairlead.base import logs
from kube_fairlead.lifecycle.shutdown_config import BadShutdownConfig, Period


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def test_the_fields_and_their_defaults(tmp_path: pathlib.Path) -> None:
    config = read_config(written(tmp_path, "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n"))
    assert config.shutdown.periods == (Period(0, 20), Period(2000000000, 10))
    assert config.runtime_endpoint == "/run/containerd/containerd.sock"
    assert config.kubelet_unit == "kubelet.service"
    text = (
        "containerRuntimeEndpoint: unix:///run/crio/crio.sock\nkubeletUnit: k3s.service\nkubeletConfigFile: /k.yaml\n"
    )
    config = read_config(written(tmp_path, text))
    assert (config.runtime_endpoint, config.kubelet_unit) == ("/run/crio/crio.sock", "k3s.service")
    assert config.kubelet_config_file == pathlib.Path("/k.yaml")
    assert not config.shutdown.enabled
    assert not read_config(written(tmp_path, "")).shutdown.enabled


def test_the_kubelets_own_file_will_do(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, "kind: KubeletConfiguration\nmaxPods: 110\nshutdownGracePeriod: 30s\n")
    assert read_config(path).shutdown.budget_seconds == 30
    assert kubelet_is_configured(path)


def test_an_unreadable_kubelet_configuration_is_logged(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(output="json")
    assert not kubelet_is_configured(tmp_path / "missing")
    assert capsys.readouterr().err == ""
    path = written(tmp_path, "{")
    assert not kubelet_is_configured(path)
    said = capsys.readouterr().err
    assert "kubelet configuration cannot be read" in said
    assert str(path) in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("maxPods: 110\n", "unknown field 'maxPods'"),
        ("[1]\n", "must be a mapping"),
        ("{", "is not valid YAML"),
        ("kubeletUnit: 5\n", "kubeletUnit 5 must be a string"),
        ("containerRuntimeEndpoint: tcp://1.2.3.4\n", "containerRuntimeEndpoint 'tcp://1.2.3.4' must be a unix socket"),
        ("shutdownGracePeriod: 1ms\n", "shutdownGracePeriod 1ms must be either zero or otherwise >= 1 sec"),
    ],
)
def test_what_is_wrong_is_refused_with_the_file_and_the_field(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadShutdownConfig) as refused:
        read_config(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "shutdownGracePeriod: 1ms\n", "[]\n"])
def test_a_kubelet_that_is_not_set_up_to_end_pods(tmp_path: pathlib.Path, text: str) -> None:
    assert not kubelet_is_configured(written(tmp_path, text))
    assert not kubelet_is_configured(tmp_path / "none")


def test_defaults_on_windows(tmp_path: pathlib.Path) -> None:
    config = read_config(written(tmp_path, "shutdownGracePeriod: 30s\n"), system="win32")
    assert config.shutdown.budget_seconds == 30
    assert config.runtime_endpoint == r"\\.\pipe\containerd-containerd"
    assert (config.kubelet_unit, str(config.kubelet_config_file)) == ("kubelet", r"C:\var\lib\kubelet\config.yaml")


@pytest.mark.parametrize("text", ["npipe:////./pipe/crio", "npipe://./pipe/crio", r"'\\.\pipe\crio'", "//./pipe/crio"])
def test_a_named_pipe_is_spelt_as_for_the_kubelet(tmp_path: pathlib.Path, text: str) -> None:
    path = written(tmp_path, f"containerRuntimeEndpoint: {text}\n")
    assert read_config(path, system="win32").runtime_endpoint == r"\\.\pipe\crio"


@pytest.mark.parametrize("text", ["unix:///run/crio/crio.sock", "npipe:////./pipe/", "npipe:////server/pipe/x", "x"])
def test_what_is_no_named_pipe_of_this_machine_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    with pytest.raises(BadShutdownConfig, match=r"must be a named pipe, such as npipe:////\./pipe/containerd"):
        read_config(written(tmp_path, f"containerRuntimeEndpoint: {text}\n"), system="win32")
