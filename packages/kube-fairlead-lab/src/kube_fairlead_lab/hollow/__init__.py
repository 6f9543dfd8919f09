"""A cluster without machines: kubelets, a scheduler and workload controllers that only go through the motions.

Here belongs what a demo, a test or a measurement needs around the thing it shows: nodes that register, heartbeat and
run pods (`fleet`, on `kubelet`'s pure decisions), a small scheduler, and the behaviour of ReplicaSets, Deployments,
StatefulSets, DaemonSets and EndpointSlices (`workloads`). Everything speaks the Kubernetes API and nothing else, so
that real parts can take over: beside the real kube-controller-manager and kube-scheduler only kubelets are hollow.
Nothing here is for production, and no other component imports it. The status of disruption budgets, garbage collection
and the end of namespaces are the control plane's own on either side.
Before: `manager`, whose controllers these are. After: the command line, demo, tests and benchmarks.

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
from kube_fairlead_lab.hollow.plan import NodePlan, check_ranges, plan_nodes
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
