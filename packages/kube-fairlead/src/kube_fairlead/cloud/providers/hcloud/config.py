"""What the HCLOUD_ variables say."""

from __future__ import annotations

import dataclasses

from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.provider import ProviderSettings

__all__ = ["HetznerConfig", "read_config"]

_LOAD_BALANCERS = "HCLOUD_LOAD_BALANCERS_"
_BOOLEANS = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HetznerConfig:
    """Which project, and where its load balancers are made."""

    token: str
    endpoint: str = ""
    network: str = ""  # name or id
    load_balancer_location: str = ""
    load_balancer_network_zone: str = ""
    load_balancer_private: bool = False  # whether load balancers reach servers through the network


def read_config(settings: ProviderSettings) -> HetznerConfig:
    """Read the environment.

    Raises:
        ProviderError: a variable is missing, or two do not fit together.
    """
    if settings.cloud_config is not None:
        raise ProviderError("cloud provider hcloud takes no --cloud-config: it is configured by HCLOUD_ variables")

    def value(name: str) -> str:
        return settings.environment.get(f"HCLOUD_{name}") or ""

    if not value("TOKEN"):
        raise ProviderError("cloud provider hcloud needs HCLOUD_TOKEN")
    known = {f"{_LOAD_BALANCERS}{name}" for name in ("LOCATION", "NETWORK_ZONE", "USE_PRIVATE_IP")}
    named = {name for name, said in settings.environment.as_dict().items() if name.startswith(_LOAD_BALANCERS) and said}
    if unknown := sorted(named - known):
        raise ProviderError(
            f"{unknown[0]} is not supported; annotate the Services. Supported: {', '.join(sorted(known))}"
        )
    if value("LOAD_BALANCERS_LOCATION") and value("LOAD_BALANCERS_NETWORK_ZONE"):
        raise ProviderError("HCLOUD_LOAD_BALANCERS_LOCATION and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE: set one of them")
    private = value("LOAD_BALANCERS_USE_PRIVATE_IP") or "false"
    if private not in _BOOLEANS:
        raise ProviderError(f"HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP: must be true or false, got {private!r}")
    if _BOOLEANS[private] and not value("NETWORK"):
        raise ProviderError("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP needs HCLOUD_NETWORK")
    return HetznerConfig(
        token=value("TOKEN"),
        endpoint=value("ENDPOINT"),
        network=value("NETWORK"),
        load_balancer_location=value("LOAD_BALANCERS_LOCATION"),
        load_balancer_network_zone=value("LOAD_BALANCERS_NETWORK_ZONE"),
        load_balancer_private=_BOOLEANS[private],
    )
