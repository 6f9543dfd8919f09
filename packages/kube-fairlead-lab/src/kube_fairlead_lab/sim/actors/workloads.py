"""Workloads: pods, and the controllers that create them again.

`web` is a Deployment, `db` a StatefulSet, `logs` a DaemonSet, `static` a static pod, and `bare` a pod without an owner.
So a drain meets every kind that its filters know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.drain.filters import MIRROR_ANNOTATION
from kube_fairlead.lifecycle.shutdown_status import TAINT
from kube_fairlead_lab.hollow import ANNOTATION_ENDS
from kube_fairlead_lab.sim.commits import NODES, PODS, Commits
from kube_fairlead_lab.sim.environment import Environment

__all__ = ["Workloads"]

_POD: Final = GroupVersionResource("", "v1", "pods")
_LOOK_SECONDS: Final = 4.0
_REPLICAS: Final = 2
_ENDS: Final = ("at-once", "2s", "8s", "killed")
_MIDDLE: Final = "middle"
_CRITICAL: Final = "system-cluster-critical"


class Workloads:
    """Creates pods, assigns them to nodes, and replaces deleted pods."""

    def __init__(
        self, environment: Environment, commits: Commits, client: Client, nodes: list[str], chance: Randomness
    ) -> None:
        self._environment = environment
        self._commits = commits
        self._client = client
        self._nodes = nodes
        self._chance = chance
        self._owners: dict[str, dict[str, Any]] = {}
        self._number = 0

    async def set_up(self) -> None:
        """Create the owners of pods, and a budget for `db`."""
        for kind, name in (("ReplicaSet", "web"), ("StatefulSet", "db"), ("DaemonSet", "logs")):
            labels = {"app": name}
            spec: dict[str, Any] = {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _spec()},
            }
            if kind != "DaemonSet":
                spec["replicas"] = _REPLICAS
            made = await self._create("apps", f"{kind.lower()}s", kind, name, {"spec": spec}, namespace="default")
            self._owners[name] = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": name,
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        await self._create("scheduling.k8s.io", "priorityclasses", "PriorityClass", _MIDDLE, {"value": 1000})
        budget = {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}}
        await self._create("policy", "poddisruptionbudgets", "PodDisruptionBudget", "db", budget, namespace="default")

    async def run(self) -> None:
        """Reconcile the pods until the end of the run."""
        while True:
            for pod in list(self._commits.of(PODS).values()):
                if pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
                    await self._remove(pod)
            await self._place_all()
            await self._environment.clock.sleep(_LOOK_SECONDS)

    async def _place_all(self) -> None:
        pods = self._commits.of(PODS)
        there = [pod["metadata"]["labels"]["app"] for pod in pods.values() if _lives(pod)]
        for _ in range(_REPLICAS - there.count("web")):
            self._number += 1
            await self._place("web", f"web-{self._number}")
        for number in range(_REPLICAS):
            if f"default/db-{number}" not in pods:
                await self._place("db", f"db-{number}", priorityClassName=_MIDDLE)
        if "bare" not in there:
            self._number += 1
            await self._place("bare", f"bare-{self._number}", volumes=[{"name": "scratch", "emptyDir": {}}])
        for node in self._nodes:
            if f"default/logs-{node}" not in pods and self._takes(node, cordoned=True):
                await self._make("logs", f"logs-{node}", node, priorityClassName=_CRITICAL)
        first = self._nodes[0]
        if f"default/static-{first}" not in pods and self._takes(first, cordoned=True):
            await self._make("static", f"static-{first}", first)

    async def _place(self, app: str, name: str, **spec: Any) -> None:
        open_nodes = [node for node in self._nodes if self._takes(node, cordoned=False)]
        if open_nodes:
            await self._make(app, name, self._chance.choice(open_nodes), **spec)

    def _takes(self, name: str, *, cordoned: bool) -> bool:
        node = self._commits.of(NODES).get(name)
        if node is None:
            return False
        spec = node.get("spec", {})
        tainted = any(taint["key"] == TAINT.key for taint in spec.get("taints", ()))
        return not tainted and (cordoned or not spec.get("unschedulable", False))

    async def _make(self, app: str, name: str, node: str, **spec: Any) -> None:
        annotations = {ANNOTATION_ENDS: self._chance.choice(_ENDS)}
        if app == "static":
            annotations[MIRROR_ANNOTATION] = name
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "default",
            "labels": {"app": app},
            "annotations": annotations,
        }
        if app in self._owners:
            metadata["ownerReferences"] = [self._owners[app]]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**_spec(), "nodeName": node, **spec},
        }
        with contextlib.suppress(api_errors.ApiError, errors.ClientError):
            await self._client.of(_POD).create(body, namespace="default")

    async def _remove(self, pod: Mapping[str, Any]) -> None:
        """Delete a finished pod, by its uid."""
        metadata = pod["metadata"]
        with contextlib.suppress(api_errors.ApiError, errors.ClientError):
            await self._client.of(_POD).delete(
                metadata["name"], namespace="default", uid=metadata["uid"], grace_period_seconds=0
            )

    async def _create(
        self, group: str, plural: str, kind: str, name: str, body: dict[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        version = "v1"
        made = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, **body}
        return await self._client.of(GroupVersionResource(group, version, plural)).create(made, namespace=namespace)


def _spec() -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": 6, "containers": [{"name": "c", "image": "i"}]}


def _lives(pod: Mapping[str, Any]) -> bool:
    finished = pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}
    return not finished and "deletionTimestamp" not in pod["metadata"]
