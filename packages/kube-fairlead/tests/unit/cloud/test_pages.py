"""What the guide shows is true: its files are read by the code, its snippet runs."""

from __future__ import annotations

import io
import pathlib
import re
import sys

import pytest
import yaml

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.provider import ProviderSettings
from kube_fairlead.cloud.providers.aws.config import read_config
from kube_fairlead.cloud.providers.external.config import read_config as read_external_config
from kube_fairlead.cloud.providers.static import StaticProvider
from tests.unit.cloud.world import NO_CLUSTER, NODE

PAGE = (pathlib.Path(__file__).parents[5] / "docs" / "hybrid-clouds.md").read_text(encoding="utf-8")


def block(language: str, *, having: str = "") -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    [wanted] = [one for one in found if having in one]
    return str(wanted)


async def test_the_inventory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(block("yaml", having="instances:\n"), encoding="utf-8")
    static = StaticProvider(path)
    async with static.running(NO_CLUSTER):
        assert await static.exists("on-prem://rack1/a", NODE)


def test_the_configuration_for_amazon(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "aws.conf"
    path.write_text(block("ini"), encoding="utf-8")
    settings = ProviderSettings(cloud_config=path, cluster_name="c", clock=RealClock(), environment=Environment({}))
    config = read_config(settings)
    assert config.region == "eu-central-1"
    assert config.subnets == ("subnet-1", "subnet-2")
    assert config.cluster_tag == "kubernetes.io/cluster/prod"
    assert config.endpoints == {"ec2": "https://ec2.internal.example"}


def test_the_configuration_for_a_server(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nimbus.yaml"
    path.write_text(block("yaml", having="address: cloud"), encoding="utf-8")
    for name in ("ca.crt", "client.crt", "client.key"):
        (tmp_path / name).touch()
    settings = ProviderSettings(cloud_config=path, cluster_name="c", clock=RealClock(), environment=Environment({}))
    config = read_external_config(settings)
    assert (config.address, set(config.platforms)) == ("cloud.example:8443", {"nimbus"})
    assert config.parts == {"instances", "routes", "loadBalancers"}


def test_the_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    exec(compile(block("python"), "hybrid-clouds.md", "exec"), {})
    kinds = [document["kind"] for document in yaml.safe_load_all(output.getvalue())]
    assert kinds[0] == "ServiceAccount"
    assert "ValidatingAdmissionPolicy" in kinds
