"""Amazon's cloud as one provider."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.providers.aws.client import AwsClient
from kube_fairlead.cloud.providers.aws.config import AwsConfig
from kube_fairlead.cloud.providers.aws.instances import AwsInstances
from kube_fairlead.cloud.providers.aws.loadbalancers import AwsLoadBalancers
from kube_fairlead.cloud.providers.aws.routes import AwsRoutes
from kube_fairlead.cloud.threads import Threads

__all__ = ["AwsProvider"]


class AwsProvider:
    """EC2 instances, route tables and network load balancers of one region."""

    name = "aws"
    zones = None  # instances say where they are

    def __init__(self, config: AwsConfig) -> None:
        try:
            import boto3
        except ImportError as error:
            raise ProviderError(
                f"cloud provider aws needs Amazon's library: {error}; pip install 'kube-fairlead[aws]'"
            ) from error
        del boto3
        self._threads = Threads("aws")
        self._client = AwsClient(config, self._threads)
        self.instances = AwsInstances(self._client, config)
        self.routes = AwsRoutes(self._client, config)
        self.load_balancers = AwsLoadBalancers(self._client, config)

    def supported_platforms(self) -> frozenset[str]:
        """The scheme of Amazon's ids, in every partition."""
        return frozenset({"aws"})

    @contextlib.asynccontextmanager
    async def running(self, cluster: Cluster) -> AsyncIterator[None]:
        """Holds threads and connections."""
        del cluster
        async with self._threads:
            try:
                yield
            finally:
                self._client.close()
