from __future__ import annotations

import pathlib

import pytest

from fairlead.agent.shutdown.configuration import kubelet_is_configured, read_config
from fairlead.lifecycle.shutdown_config import BadShutdownConfig, Period


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("maxPods: 110\n", "unknown field 'maxPods'"),
        ("[1]\n", "must be a mapping"),
        ("{", "cannot be read"),
        ("kubeletUnit: 5\n", "kubeletUnit 5 must be a text"),
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
