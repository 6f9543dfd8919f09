from __future__ import annotations

import contextlib
import os
import pathlib
import threading
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.api.core_v1 import NodeAddress
from kube_fairlead.base import files
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.errors import CloudUnavailable, ForeignId, ProviderError
from kube_fairlead.cloud.provider import InstanceQuery, ProviderSettings
from kube_fairlead.cloud.providers.static import StaticProvider, provider
from tests.unit.cloud.world import NO_CLUSTER, NODE

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


WITH_END = f"{INVENTORY}...\n"


@contextlib.asynccontextmanager
async def opened(path: pathlib.Path) -> AsyncIterator[StaticProvider]:
    made = StaticProvider(path)
    async with made.running(NO_CLUSTER):
        yield made


def replace(path: pathlib.Path, content: str) -> None:
    """As it should be done."""
    files.write_atomically(path, content.encode())


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(INVENTORY, encoding="utf-8")
    return path


async def test_machines_are_found_by_id_or_by_name(path: pathlib.Path) -> None:
    async with opened(path) as static:
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
    async with opened(path) as static:
        assert await static.exists("lab://b", NODE)
        replace(path, "platforms: [on-prem, lab]\ninstances: [{name: new}]")
        assert not await static.exists("lab://b", NODE)
        assert await static.exists("on-prem://new", NODE)
        replace(path, INVENTORY)
        assert await static.exists("lab://b", NODE)


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
    async with opened(path) as static:
        replace(path, content)
        with pytest.raises(CloudUnavailable, match=r"inventory\.yaml cannot be read"):
            await static.exists("lab://b", NODE)
        with pytest.raises(CloudUnavailable):
            await static.describe([InstanceQuery("rack1-a")])
        replace(path, INVENTORY)
        assert await static.exists("lab://b", NODE)


async def test_a_file_that_is_gone_is_an_outage(path: pathlib.Path) -> None:
    async with opened(path) as static:
        path.unlink()
        with pytest.raises(CloudUnavailable):
            await static.exists("lab://b", NODE)


async def test_foreign_ids_have_no_answer(path: pathlib.Path) -> None:
    async with opened(path) as static:
        for odd in ("aws://1", "lab", "", "LAB://b"):
            with pytest.raises(ForeignId):
                await static.exists(odd, NODE)


async def test_many_at_once(path: pathlib.Path) -> None:
    async with opened(path) as static:
        asked = ["lab://b", "lab://other", "aws://1"]
        assert await static.which_exist(dict.fromkeys(asked, NODE)) == {"lab://b": True, "lab://other": False}
        path.unlink()
        with pytest.raises(CloudUnavailable):
            await static.which_exist(dict.fromkeys(asked, NODE))


async def test_half_a_file_is_an_outage_although_it_is_right(path: pathlib.Path) -> None:
    half = INVENTORY.partition("- name: rack1-b")[0]
    async with opened(path) as static:
        path.write_text(half, encoding="utf-8")  # written over, and not yet to the end
        with pytest.raises(CloudUnavailable, match=r"does not end with '\.\.\.'"):
            await static.exists("lab://b", NODE)
        with pytest.raises(CloudUnavailable):  # and so every time
            await static.which_exist(dict.fromkeys(["lab://b"], NODE))
        path.write_text(WITH_END, encoding="utf-8")
        assert await static.exists("lab://b", NODE)
        path.write_text(f"{half}...", encoding="utf-8")
        assert not await static.exists("lab://b", NODE)
        replace(path, half)  # in one step, but where an end is usual it is missed
        with pytest.raises(CloudUnavailable):
            await static.exists("lab://b", NODE)
        replace(path, WITH_END)
        assert await static.exists("lab://b", NODE)


async def test_a_file_that_is_replaced_often_is_never_taken_for_one_that_was_written_over(path: pathlib.Path) -> None:
    async with opened(path) as static:
        for number in range(20):
            replace(path, INVENTORY)  # file systems give the number of a file that is gone to the next one
            replace(path, f"{INVENTORY}- name: rack2-{number}\n")
            assert await static.exists(f"on-prem://rack2-{number}", NODE)


async def test_nothing_is_held_open_afterwards(path: pathlib.Path) -> None:
    def held() -> list[pathlib.Path]:
        return [one for one in pathlib.Path("/proc/self/fd").iterdir() if os.path.realpath(one) == str(path)]

    static = StaticProvider(path)
    assert held() == []
    for _ in range(2):
        async with static.running(NO_CLUSTER):
            assert await static.exists("lab://b", NODE)
            assert len(held()) == 1
        assert held() == []


async def test_reading_does_not_hold_up_the_event_loop(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    read = StaticProvider._read

    def recorded(self: StaticProvider) -> object:
        threads.append(threading.current_thread())
        return read(self)

    async with opened(path) as static:
        monkeypatch.setattr(StaticProvider, "_read", recorded)
        await static.describe([InstanceQuery("rack1-a")])
        await static.exists("lab://b", NODE)
        await static.which_exist(dict.fromkeys(["lab://b"], NODE))
    assert len(threads) == 3
    assert threading.main_thread() not in threads


async def test_a_change_of_the_file_does_not_add_platforms(path: pathlib.Path) -> None:
    async with opened(path) as static:
        replace(path, "platforms: [aws]\ninstances: []")
        assert static.supported_platforms() == {"on-prem", "lab"}
        with pytest.raises(ForeignId):
            await static.exists("aws://1", NODE)


def settings(path: pathlib.Path | None) -> ProviderSettings:
    return ProviderSettings(cloud_config=path, cluster_name="c", clock=RealClock(), environment=Environment({}))


def test_configuration_errors_are_found_at_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProviderError, match="needs --cloud-config"):
        provider(settings(None))
    with pytest.raises(ProviderError, match=r"--cloud-config: inventory .* cannot be read"):
        provider(settings(tmp_path / "nowhere"))
