"""The metric of KEP-5673: the use of the grace period of custom resources, by kind."""

from __future__ import annotations

from kube_fairlead.base.metrics import Counter, Metrics
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["GracefulDeletions"]


class GracefulDeletions:
    """`apiserver_crd_graceful_deletion_total`: deletes that recorded a grace period, the first and shorter ones after.

    A delete that changes nothing, has no grace period or is a dry run is not counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Looking up a series by its labels costs more than an increment, and deletecollection increments thousands of
        # times.
        self._known: dict[tuple[str, str], Counter] = {}

    def count(self, resource: Resource) -> None:
        """Count one delete."""
        place = resource.group, resource.plural
        series = self._known.get(place)
        if series is None:
            total = self._metrics.counter(
                "apiserver_crd_graceful_deletion_total",
                "Deletes of custom resources that recorded a grace period.",
                ("group", "resource"),
            )
            series = self._known[place] = total.labels(group=resource.group, resource=resource.plural)
        series.inc()
