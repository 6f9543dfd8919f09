from __future__ import annotations

from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead_apiserver.observability.request_metrics import GracefulDeletions
from kube_fairlead_apiserver.registry.builtin import builtin_resources


def test_graceful_deletions_are_counted_by_resource_and_the_help_says_what_they_are() -> None:
    metrics = PrometheusMetrics()
    deletions = GracefulDeletions(metrics)
    (pods,) = (one for one in builtin_resources() if (one.group, one.plural) == ("", "pods"))
    deletions.count(pods)
    name = "apiserver_crd_graceful_deletion_total"
    assert [line for line in metrics.exposition().decode().splitlines() if name in line] == [
        f"# HELP {name} Deletes of custom resources that recorded a grace period.",
        f"# TYPE {name} counter",
        f'{name}{{group="",resource="pods"}} 1.0',
    ]
