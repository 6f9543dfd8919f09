"""The metric of KEP-5673: the use of the grace period of custom resources, by kind."""

from __future__ import annotations

from kube_fairlead.base.metrics import Metrics
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["GracefulDeletions"]


class GracefulDeletions:
    """`apiserver_crd_graceful_deletion_total`: deletes that recorded a grace period, the first and shorter ones after.

    A delete that changes nothing, has no grace period or is a dry run is not counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._total = metrics.counter(
            "apiserver_crd_graceful_deletion_total",
            """Count one delete.""",
            ("group", "resource"),
        )

    def count(self, resource: Resource) -> None:
        """Deletes of custom resources that recorded a grace period."""
        self._total.labels(resource.group, resource.plural).inc()
