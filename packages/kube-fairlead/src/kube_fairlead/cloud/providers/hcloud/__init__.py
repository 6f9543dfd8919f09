"""Hetzner Cloud: servers, routes of a network and load balancers, through Hetzner's own library.

Configured, as Hetzner's own manager is, by the environment: HCLOUD_TOKEN, HCLOUD_NETWORK (whose addresses are the
internal ones, and which has the routes; by name or id), HCLOUD_ENDPOINT, HCLOUD_LOAD_BALANCERS_LOCATION or
HCLOUD_LOAD_BALANCERS_NETWORK_ZONE, HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP.

Dedicated servers (`hrobot://`) are a platform of their own, which the cloud's API knows nothing of: to this provider
their nodes are foreign. So are those with the older form of their id, `hcloud://bm-...`, about which it has no answer.
"""

from __future__ import annotations

from kube_fairlead.cloud.provider import ProviderSettings
from kube_fairlead.cloud.providers.hcloud.client import HetznerClient
from kube_fairlead.cloud.providers.hcloud.config import read_config
from kube_fairlead.cloud.providers.hcloud.provider import HetznerProvider

__all__ = ["HetznerProvider", "provider"]


def provider(settings: ProviderSettings) -> HetznerProvider:
    """What the entry point names."""
    config = read_config(settings)
    return HetznerProvider(HetznerClient(config, settings.clock), config)
