from __future__ import annotations

import itertools
import pathlib

import pytest

from kube_fairlead.api import names as api_names
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.checked import checked
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.cloud.manager_names import identity_of, lease_name, manager_identity
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.cloud.providers.static import StaticProvider


@pytest.mark.parametrize(
    ("provider", "platforms", "own", "identity"),
    [
        ("aws", {"aws"}, {"aws"}, "aws"),
        ("aws", {"aws"}, (), "aws"),
        ("nimbus", {"eu", "us"}, {"eu", "us"}, "nimbus"),
        ("nimbus", {"eu"}, {"eu", "us"}, "nimbus-eu"),
        ("static", {"on-prem"}, (), "static-on-prem"),
        ("static", {"lab", "on-prem"}, (), "static-lab-on-prem-cc664304"),
        ("aws", (), {"aws"}, "aws"),
    ],
)
def test_a_manager_is_known_by_its_provider_and_platforms(
    provider: str, platforms: set[str], own: set[str], identity: str
) -> None:
    assert manager_identity(provider, platforms, own=own) == identity


def test_the_lease_carries_the_identity_when_there_may_be_others() -> None:
    assert lease_name("aws", {"aws"}) == "cloud-controller-manager-aws"
    assert lease_name("aws", ()) == "cloud-controller-manager"


def test_no_two_sets_of_platforms_have_one_name() -> None:
    platforms = ["a", "b", "a-b", "b-c", "c", "a.b", "x" * 63, "x" * 62 + "y"]
    sets = [set(some) for size in (1, 2, 3) for some in itertools.combinations(platforms, size)]
    named = [Manager(provider="static", platforms=frozenset(one)).name for one in sets]
    assert len(set(named)) == len(named)
    # As names, and as values of labels.
    assert all(len(one) <= 63 and not api_names.dns1123_subdomain(one) for one in named)


def test_two_inventories_have_two_leases(tmp_path: pathlib.Path) -> None:
    leases = []
    for platform in ("on-prem", "lab"):
        path = tmp_path / f"{platform}.yaml"
        path.write_text(f"platforms: [{platform}]\ninstances: []\n", encoding="utf-8")
        provider = checked("static", lambda path=path: StaticProvider(path))  # type: ignore[misc]  # read at once
        manager = CloudManager(provider, provider.supported_platforms(), CloudSettings())
        leases.append(manager.lease)
        assert manager.lease == Manager(provider="static", platforms=frozenset({platform})).name
    assert leases == ["cloud-controller-manager-static-on-prem", "cloud-controller-manager-static-lab"]


def test_a_provider_that_is_narrowed_down_is_another_manager() -> None:
    cloud = FakeCloud("eu", "us", name="nimbus")
    assert identity_of(cloud, {"eu", "us"}) == "nimbus"
    assert identity_of(cloud, {"eu"}) == "nimbus-eu"
