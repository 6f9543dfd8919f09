"""Hetzner Cloud as one provider."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.providers.hcloud.client import HetznerClient
from kube_fairlead.cloud.providers.hcloud.config import HetznerConfig
from kube_fairlead.cloud.providers.hcloud.loadbalancers import HetznerLoadBalancers
from kube_fairlead.cloud.providers.hcloud.routes import HetznerRoutes
from kube_fairlead.cloud.providers.hcloud.servers import PLATFORM, HetznerServers

__all__ = ["HetznerProvider"]


class HetznerProvider:
    """The servers, the load balancers and, where a network is configured, the routes of one project."""

    name = PLATFORM
    zones = None  # servers say where they are

    def __init__(self, client: HetznerClient, config: HetznerConfig) -> None:
        self._client = client
        self.instances = HetznerServers(client)
        self.routes = HetznerRoutes(client) if config.network else None
        self.load_balancers = HetznerLoadBalancers(client, config)

    def supported_platforms(self) -> frozenset[str]:
        """Cloud servers only."""
        return frozenset({PLATFORM})

    @contextlib.asynccontextmanager
    async def running(self, cluster: Cluster) -> AsyncIterator[None]:
        """Holds threads and connections."""
        del cluster
        async with self._client.running():
            yield
