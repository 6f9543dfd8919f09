"""The behaviour of workloads: controllers that keep as many pods as a workload asks for, as upstream's do.

Here belongs one controller per kind, on `pods`, which they share. They keep numbers and names as upstream; templates
that change roll out for Deployments only.
"""

from __future__ import annotations

from fairlead.hollow.caches import Caches
from fairlead.hollow.workloads.daemonsets import daemon_sets
from fairlead.hollow.workloads.deployments import deployments
from fairlead.hollow.workloads.endpoints import endpoint_slices
from fairlead.hollow.workloads.replicasets import replica_sets
from fairlead.hollow.workloads.statefulsets import stateful_sets
from fairlead.manager import Controller

__all__ = ["workload_controllers"]


def workload_controllers(caches: Caches) -> list[Controller]:
    """All of them, on shared caches."""
    return [
        deployments(caches),
        replica_sets(caches),
        stateful_sets(caches),
        daemon_sets(caches),
        endpoint_slices(caches),
    ]
