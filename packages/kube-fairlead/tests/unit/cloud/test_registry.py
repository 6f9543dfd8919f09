from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.provider import ProviderSettings
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.cloud.registry import make_provider, platforms_of, provider_names, require_part

SETTINGS = ProviderSettings(cloud_config=None, cluster_name="c", clock=RealClock(), environment=Environment({}))


@dataclasses.dataclass
class Entry:
    name: str
    load: Callable[[], Any]


def broken() -> Any:
    raise ImportError("No module named 'boto3'")


ENTRIES = [Entry("fake", lambda: lambda _settings: FakeCloud("x")), Entry("aws", broken)]


def test_a_provider_is_found_by_name() -> None:
    assert make_provider("fake", SETTINGS, lambda: ENTRIES).supported_platforms() == {"x"}
    assert provider_names(lambda: ENTRIES) == ["aws", "fake"]


def test_an_unknown_provider_is_refused_by_name() -> None:
    with pytest.raises(ProviderError, match="'gce' is not known; installed are: aws, fake"):
        make_provider("gce", SETTINGS, lambda: ENTRIES)


def test_a_missing_library_says_what_to_install() -> None:
    with pytest.raises(ProviderError, match=r"No module named 'boto3'.*pip install 'kube-fairlead\[aws\]'"):
        make_provider("aws", SETTINGS, lambda: ENTRIES)


def test_ours_are_installed() -> None:
    assert {"static"} <= set(provider_names())
    with pytest.raises(ProviderError, match="needs --cloud-config"):
        make_provider("static", SETTINGS)


def test_platforms() -> None:
    cloud = FakeCloud("aws", "aws-edge")
    assert platforms_of(cloud, None) == {"aws", "aws-edge"}
    assert platforms_of(cloud, ["aws"]) == {"aws"}
    assert platforms_of(cloud, []) == frozenset()
    assert platforms_of(FakeCloud(), ["anything"]) == {"anything"}
    with pytest.raises(ProviderError, match=r"does not support platform gce; it supports aws, aws-edge"):
        platforms_of(cloud, ["aws", "gce"])
    with pytest.raises(ProviderError, match=r"--cloud-provider-platforms: 'A B' is not a platform"):
        platforms_of(cloud, ["A B"])


def test_a_missing_part_is_refused_by_name() -> None:
    cloud = FakeCloud("aws", name="tiny")
    require_part(cloud, "load_balancers", "service-lb-controller")
    cloud.load_balancers = None
    with pytest.raises(ProviderError, match="cloud provider tiny does not support load balancers"):
        require_part(cloud, "load_balancers", "service-lb-controller")


def having(**parts: Any) -> FakeCloud:
    cloud = FakeCloud("x")
    for name, value in parts.items():
        setattr(cloud, name, value)
    return cloud


def raises() -> Any:
    raise KeyError("region")


class Secretive(FakeCloud):
    @property
    def routes(self) -> Any:
        raise KeyError("region")

    @routes.setter
    def routes(self, value: object) -> None:
        """As the others do."""


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (raises, r"the factory\(\) raised KeyError: 'region'"),
        (lambda: None, r"instances\(\) raised AttributeError"),
        (lambda: having(name=None), "has a name or a platform that does not do"),
        (lambda: having(name="Two Words"), "'Two Words' is not a platform"),
        (lambda: having(supported_platforms=raises), r"supported_platforms\(\) raised KeyError: 'region'"),
        (lambda: having(supported_platforms=lambda: None), r"supported_platforms\(\) is NoneType, not set"),
        (lambda: having(supported_platforms=lambda: "aws"), r"supported_platforms\(\) is str, not set"),
        (lambda: having(supported_platforms=lambda: {"aws", None}), r"a member of supported_platforms\(\) is NoneType"),
        (lambda: having(supported_platforms=lambda: {"A"}), "'A' is not a platform"),
        (
            lambda: having(load_balancers=object()),
            "its load_balancers lack ensure_load_balancer, ensure_load_balancer_d",
        ),
        (lambda: having(instances=True), "its instances lack describe, exists, recognises"),
        (Secretive, r"routes\(\) raised KeyError: 'region'"),
    ],
)
def test_a_provider_that_is_none_is_refused_at_the_start(make: Callable[[], Any], why: str) -> None:
    """Above all one that says no platforms: without them every node would be its own."""
    entry = Entry("plug", lambda: lambda _settings: make())
    with pytest.raises(ProviderError, match=why):
        make_provider("plug", SETTINGS, lambda: [entry])


class OfBefore(FakeCloud):
    """A provider that was written when `exists` was given the id alone."""

    async def exists(self, provider_id: str) -> bool:  # type: ignore[override]  # that is the point
        return bool(provider_id)


class WithoutCluster(FakeCloud):
    def running(self) -> Any:  # type: ignore[override]  # that is the point
        return None


class OfMany(FakeCloud):
    async def which_exist(self) -> Any:
        return {}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (OfBefore, r"exists\(\) of its instances must take \(provider_id, node\): too many"),
        (WithoutCluster, r"running\(\) of the provider must take \(cluster\)"),
        (OfMany, r"which_exist\(\) of its instances must take \(nodes\)"),
    ],
)
def test_a_method_of_another_version_of_the_protocol_is_refused_at_the_start(kind: type[FakeCloud], why: str) -> None:
    """It could take one argument for another, and say of a machine that is there that it is gone."""
    entry = Entry("plug", lambda: lambda _settings: kind("x"))
    with pytest.raises(ProviderError, match=why):
        make_provider("plug", SETTINGS, lambda: [entry])


def test_a_plug_in_that_fails_while_it_is_loaded_is_refused() -> None:
    def load() -> Any:
        raise SyntaxError("invalid syntax")

    with pytest.raises(ProviderError, match="cloud provider plug cannot be loaded: SyntaxError: invalid syntax"):
        make_provider("plug", SETTINGS, lambda: [Entry("plug", load)])
