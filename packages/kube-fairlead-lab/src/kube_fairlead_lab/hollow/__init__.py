"""A cluster without machines: hollow kubelets, a scheduler and workload controllers.

Here belongs what a demo, a test or a measurement needs around its subject: nodes that register, heartbeat and run pods
(`fleet`, on `kubelet`'s pure decisions), a small scheduler, and the controllers of ReplicaSets, Deployments,
StatefulSets, DaemonSets and EndpointSlices (`workloads`). Everything uses the Kubernetes API only, so real components
can replace it: with the real kube-controller-manager and kube-scheduler only kubelets are hollow. Nothing here is for
production, and no product component imports it. The control plane itself handles disruption budgets, garbage collection
and namespaces. Before: `manager`, which runs these controllers. After: the command line, demo, tests and benchmarks.

    async with HollowCluster(client, plan_nodes(3)).running() as cluster:
        await client.of(Deployment).create(shop)
        cluster.kubelet("hollow-0").stop()
"""

from __future__ import annotations

from kube_fairlead_lab.hollow.behaviour import ANNOTATION_ENDS, ANNOTATION_READY
from kube_fairlead_lab.hollow.cluster import HollowCluster, HollowOptions
from kube_fairlead_lab.hollow.filler_deployment import fill
from kube_fairlead_lab.hollow.fleet import Fleet
from kube_fairlead_lab.hollow.heartbeat import HeartbeatOptions
from kube_fairlead_lab.hollow.kubelet import Kubelet
from kube_fairlead_lab.hollow.node_plans import NodePlan, check_ranges, plan_nodes
from kube_fairlead_lab.hollow.runtime import Runtime, Sandbox
from kube_fairlead_lab.hollow.scheduler import scheduler

__all__ = [
    "ANNOTATION_ENDS",
    "ANNOTATION_READY",
    "Fleet",
    "HeartbeatOptions",
    "HollowCluster",
    "HollowOptions",
    "Kubelet",
    "NodePlan",
    "Runtime",
    "Sandbox",
    "check_ranges",
    "fill",
    "plan_nodes",
    "scheduler",
]
