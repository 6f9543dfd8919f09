"""The provider for Hetzner Cloud, over HTTP, against an emulation of the calls it makes."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable, ForeignId, ProviderError
from kube_fairlead.cloud.ownership import Ownership, ownership
from kube_fairlead.cloud.provider import InstanceQuery, ProviderSettings
from kube_fairlead.cloud.providers.hcloud import HetznerProvider, provider
from kube_fairlead.cloud.registry import platforms_of, require_part
from kube_fairlead.cloud.requests import requests_by
from tests.clouds.hetzner import TOKEN, EmulatedHetzner, emulated_hetzner
from tests.unit.cloud.world import NO_CLUSTER, NODE, node


@pytest.fixture
async def hetzner() -> AsyncIterator[EmulatedHetzner]:
    async with emulated_hetzner() as emulated:
        yield emulated


def settings(path: pathlib.Path | None = None, **environment: str) -> ProviderSettings:
    return ProviderSettings(
        cloud_config=path, cluster_name="test", clock=RealClock(), environment=Environment(environment)
    )


@contextlib.asynccontextmanager
async def running(hetzner: EmulatedHetzner, **environment: str) -> AsyncIterator[HetznerProvider]:
    made = provider(settings(None, **{"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": hetzner.url, **environment}))
    async with made.running(NO_CLUSTER):
        yield made


@pytest.mark.parametrize("network", ["cluster", "77"])
async def test_servers_by_id_and_by_name(hetzner: EmulatedHetzner, network: str) -> None:
    first, second = hetzner.launch("n1"), hetzner.launch("n2", "off")
    by_id, by_name = InstanceQuery("x", f"hcloud://{first}"), InstanceQuery("n2")
    async with running(hetzner, HCLOUD_NETWORK=network) as cloud:
        found = await cloud.instances.describe([by_id, by_name, InstanceQuery("nobody")])
        assert set(found) == {by_id, by_name}
    instance = found[by_id]
    assert (instance.instance_type, instance.zone, instance.region) == ("cpx21", "fsn1", "fsn1")
    assert [(one.type, one.address) for one in instance.addresses] == [
        ("Hostname", "n1"),
        ("InternalIP", f"10.0.0.{first % 250}"),
        ("ExternalIP", f"192.0.2.{first % 250}"),
    ]
    assert not instance.shutdown
    assert found[by_name].shutdown
    assert found[by_name].provider_id == f"hcloud://{second}"


async def test_many_servers_are_a_few_pages(hetzner: EmulatedHetzner) -> None:
    numbers = [hetzner.launch(f"n{number}") for number in range(120)]
    async with running(hetzner) as cloud:
        found = await cloud.instances.describe([InstanceQuery("x", f"hcloud://{number}") for number in numbers])
    assert len(found) == 120
    assert len(hetzner.requests) == 3


async def test_between_two_pages_a_question_can_be_given_up(hetzner: EmulatedHetzner) -> None:
    for number in range(120):
        hetzner.launch(f"n{number}")

    async def turn() -> None:
        if len(hetzner.requests) == 2:
            raise CloudUnavailable("stopping")

    async with running(hetzner) as cloud:
        with requests_by(turn), pytest.raises(CloudUnavailable, match="stopping"):
            await cloud.instances.describe([InstanceQuery(f"n{number}") for number in range(5)])
    assert len(hetzner.requests) == 2


async def test_existence(hetzner: EmulatedHetzner) -> None:
    number = hetzner.launch("n1")
    async with running(hetzner) as cloud:
        assert await cloud.instances.exists(f"hcloud://{number}", NODE)
        assert not await cloud.instances.exists("hcloud://999999", NODE)
        for odd in ("hcloud://bm-1", "hrobot://1", "hcloud://", "hcloud://-1", "hcloud://1/2", "aws:///z/i-1"):
            with pytest.raises(ForeignId):
                await cloud.instances.exists(odd, NODE)
            assert await cloud.instances.describe([InstanceQuery("n9", odd)]) == {}


@pytest.mark.parametrize("failure", [(429, "rate_limit_exceeded"), (503, "unavailable"), (500, "server_error")])
async def test_failures_are_no_answer(hetzner: EmulatedHetzner, failure: tuple[int, str]) -> None:
    hetzner.failure = failure
    async with running(hetzner) as cloud:
        with pytest.raises(CloudUnavailable):
            await cloud.instances.exists("hcloud://1", NODE)
        with pytest.raises(CloudUnavailable):
            await cloud.instances.describe([InstanceQuery("n1")])
    assert len(hetzner.requests) == 2  # tried once each


async def test_refusals(hetzner: EmulatedHetzner) -> None:
    async with running(hetzner, HCLOUD_TOKEN="x" * 64) as cloud:
        with pytest.raises(CloudRefused):
            await cloud.instances.exists("hcloud://1", NODE)
    async with running(hetzner, HCLOUD_NETWORK="nowhere") as cloud:
        with pytest.raises(CloudRefused, match="no network 'nowhere'"):
            await cloud.instances.describe([InstanceQuery("n1")])


async def test_nobody_there_is_no_answer() -> None:
    made = provider(settings(HCLOUD_TOKEN=TOKEN, HCLOUD_ENDPOINT="http://127.0.0.1:9"))
    async with made.running(NO_CLUSTER):
        with pytest.raises(CloudUnavailable, match="does not answer"):
            await made.instances.exists("hcloud://1", NODE)


def test_configuration(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProviderError, match="needs HCLOUD_TOKEN"):
        provider(settings())
    with pytest.raises(ProviderError, match="takes no --cloud-config"):
        provider(settings(tmp_path, HCLOUD_TOKEN=TOKEN))
    with pytest.raises(ProviderError, match="USE_PRIVATE_IP: must be true or false, got 'yes'"):
        provider(settings(HCLOUD_TOKEN=TOKEN, HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="yes"))
    with pytest.raises(ProviderError, match="USE_PRIVATE_IP needs HCLOUD_NETWORK"):
        provider(settings(HCLOUD_TOKEN=TOKEN, HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="true"))
    with pytest.raises(ProviderError, match="HCLOUD_LOAD_BALANCERS_TYPE is not supported; annotate the Services"):
        provider(settings(HCLOUD_TOKEN=TOKEN, HCLOUD_LOAD_BALANCERS_TYPE="lb21"))
    both: dict[str, str] = {
        "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1",
        "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE": "eu-central",
    }
    with pytest.raises(ProviderError, match="set one of them"):
        provider(settings(None, HCLOUD_TOKEN=TOKEN, **both))


def test_dedicated_servers_are_another_platform() -> None:
    made = provider(settings(HCLOUD_TOKEN=TOKEN))
    platforms = platforms_of(made, None)
    assert ownership(node("n1", "hcloud://1"), platforms) is Ownership.OWNED
    assert ownership(node("n1", "hrobot://1"), platforms) is Ownership.FOREIGN
    with pytest.raises(ProviderError, match="does not support platform hrobot"):
        platforms_of(made, ["hcloud", "hrobot"])


def test_routes_need_a_network() -> None:
    with pytest.raises(ProviderError, match="hcloud does not support routes"):
        require_part(provider(settings(HCLOUD_TOKEN=TOKEN)), "routes", "some-controller")
    require_part(provider(settings(HCLOUD_TOKEN=TOKEN, HCLOUD_NETWORK="cluster")), "routes", "some-controller")
    require_part(provider(settings(HCLOUD_TOKEN=TOKEN)), "load_balancers", "some-controller")
