"""Workload controllers: they keep the number of pods that a workload asks for, as upstream's do.

Here belongs one controller per kind, on the shared `pods`. They keep numbers and names as upstream; only Deployments
roll out a changed template.
"""

from __future__ import annotations

from kube_fairlead.manager import Controller
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.workloads.daemonsets import daemon_sets
from kube_fairlead_lab.hollow.workloads.deployments import deployments
from kube_fairlead_lab.hollow.workloads.endpoints import endpoint_slices
from kube_fairlead_lab.hollow.workloads.replicasets import replica_sets
from kube_fairlead_lab.hollow.workloads.statefulsets import stateful_sets

__all__ = ["workload_controllers"]


def workload_controllers(caches: Caches) -> list[Controller]:
    """Return all workload controllers, on shared caches."""
    return [
        deployments(caches),
        replica_sets(caches),
        stateful_sets(caches),
        daemon_sets(caches),
        endpoint_slices(caches),
    ]
