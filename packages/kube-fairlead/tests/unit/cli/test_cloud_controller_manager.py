from __future__ import annotations

from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main

NO_ENVIRONMENT = Environment({})
NAME = "cloud-controller-manager"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text("platforms: [on-prem]\ninstances: []\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option '--cloud-provider'"),
        (["--cloud-provider=nimbus"], "'nimbus' is not known; installed are: aws, external-grpc, hcloud, static"),
        (["--cloud-provider=static"], "cloud provider static needs --cloud-config"),
        (["--cloud-provider=aws"], "needs a region"),
        (["--cloud-provider=hcloud"], "needs HCLOUD_TOKEN"),
        (["--cloud-provider=static", "--cloud-config=/nowhere"], "does not exist"),
        (["--cloud-provider=static", "--node-vanishing-share=2"], "0<=x<=1"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([NAME, *arguments], environment=NO_ENVIRONMENT) == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--controllers=*,route", "cloud provider static does not support routes"),
        ("--controllers=service", "cloud provider static does not support load balancers"),
        ("--controllers=everything", "--controllers: everything is not known"),
        ("--cloud-provider-platforms=aws", "does not support platform aws; it supports on-prem"),
        ("--cloud-provider-platforms=On Prem", "'On Prem' is not a platform"),
        ("--leader-elect-renew-deadline=20s", "--leader-elect-lease-duration"),
        ("--node-monitor-period=0s", "must be positive"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(
    inventory: Path, tmp_path: Path, flag: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "contexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "current-context: c\n",
        encoding="utf-8",
    )
    arguments = [NAME, "--cloud-provider=static", f"--cloud-config={inventory}", f"--kubeconfig={kubeconfig}", flag]
    assert main(arguments, environment=NO_ENVIRONMENT) == 2
    assert words in " ".join(capsys.readouterr().err.split())
