from __future__ import annotations

import pathlib

import pytest

from fairlead.api.core_v1 import NodeAddress
from fairlead.base.clock import RealClock
from fairlead.base.environment import Environment
from fairlead.cloud.errors import CloudUnavailable, ForeignId, ProviderError
from fairlead.cloud.provider import InstanceQuery, ProviderSettings
from fairlead.cloud.providers.static import StaticProvider, provider

INVENTORY = """\
platforms: [on-prem, lab]
instances:
- name: rack1-a
  type: r640
  zone: rack1
  region: berlin
  addresses: [{type: InternalIP, address: 10.0.0.5}]
  labels: {example.com/row: "7"}
- name: rack1-b
  providerID: lab://b
  shutdown: true
"""


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(INVENTORY, encoding="utf-8")
    return path


async def test_machines_are_found_by_id_or_by_name(path: pathlib.Path) -> None:
    static = StaticProvider(path)
    assert static.supported_platforms() == {"on-prem", "lab"}
    by_id, by_name = InstanceQuery("whatever", "on-prem://rack1-a"), InstanceQuery("rack1-b")
    unknown = [InstanceQuery("rack1-a", "on-prem://other"), InstanceQuery("nobody")]
    found = await static.describe([by_id, by_name, *unknown])
    assert set(found) == {by_id, by_name}
    assert found[by_id].instance_type == "r640"
    assert found[by_id].addresses == (NodeAddress(type="InternalIP", address="10.0.0.5"),)
    assert (found[by_id].zone, found[by_id].region, found[by_id].shutdown) == ("rack1", "berlin", False)
    assert found[by_id].additional_labels == {"example.com/row": "7"}
    assert found[by_name].provider_id == "lab://b"
    assert found[by_name].shutdown


async def test_the_file_is_watched(path: pathlib.Path) -> None:
    static = StaticProvider(path)
    assert await static.exists("lab://b")
    path.write_text("platforms: [on-prem, lab]\ninstances: [{name: new}]", encoding="utf-8")
    assert not await static.exists("lab://b")
    assert await static.exists("on-prem://new")
    other = path.with_name("next")
    other.write_text(INVENTORY, encoding="utf-8")
    other.replace(path)
    assert await static.exists("lab://b")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "platforms: [on-prem, lab]",
        "instances: []",
        "platforms: [on-prem]\ninstances: [{name: a}, {name: a}]",
        "platforms: [on-prem]\ninstances: [{name: a, providerID: 'aws://1'}]",
        "platforms: [on-prem]\ninstances: [{nme: a}]",
        "platforms: [on-prem]\ninstances: [{name: a, extra: 1}]",
        "platforms: [On Prem]\ninstances: []",
        "platforms: []\ninstances: []",
        "{{{",
        "\x00",
    ],
)
async def test_a_file_that_is_not_right_is_an_outage(path: pathlib.Path, content: str) -> None:
    static = StaticProvider(path)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CloudUnavailable, match=r"inventory\.yaml cannot be read"):
        await static.exists("lab://b")
    with pytest.raises(CloudUnavailable):
        await static.describe([InstanceQuery("rack1-a")])
    path.write_text(INVENTORY, encoding="utf-8")
    assert await static.exists("lab://b")


async def test_a_file_that_is_gone_is_an_outage(path: pathlib.Path) -> None:
    static = StaticProvider(path)
    path.unlink()
    with pytest.raises(CloudUnavailable):
        await static.exists("lab://b")


async def test_foreign_ids_have_no_answer(path: pathlib.Path) -> None:
    for odd in ("aws://1", "lab", "", "LAB://b"):
        with pytest.raises(ForeignId):
            await StaticProvider(path).exists(odd)


async def test_a_change_of_the_file_does_not_add_platforms(path: pathlib.Path) -> None:
    static = StaticProvider(path)
    path.write_text("platforms: [aws]\ninstances: []", encoding="utf-8")
    assert static.supported_platforms() == {"on-prem", "lab"}
    with pytest.raises(ForeignId):
        await static.exists("aws://1")


def settings(path: pathlib.Path | None) -> ProviderSettings:
    return ProviderSettings(cloud_config=path, cluster_name="c", clock=RealClock(), environment=Environment({}))


def test_configuration_errors_are_found_at_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProviderError, match="needs --cloud-config"):
        provider(settings(None))
    with pytest.raises(ProviderError, match=r"--cloud-config: inventory .* cannot be read"):
        provider(settings(tmp_path / "nowhere"))
