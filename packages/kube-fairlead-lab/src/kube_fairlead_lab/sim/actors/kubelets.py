"""Kubelets: hollow ones, each a process of its machine. They start pods, report their end, and set the node Ready."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, assert_never

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.client import errors, patches
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead_lab.hollow.kubelet import Remove, Report, Wait
from kube_fairlead_lab.sim.actors.machines import SimMachine
from kube_fairlead_lab.sim.commits import NODES, Commits, is_ready
from kube_fairlead_lab.sim.environment import Actor, Environment, ProcessRun

__all__ = ["add_kubelet"]

_LOOK_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0


def add_kubelet(environment: Environment, commits: Commits, machine: SimMachine) -> Actor:
    """Add the kubelet of a machine."""

    async def main(process_run: ProcessRun) -> None:
        await _Kubelet(environment.client(process_run), commits, machine).run()

    return environment.add(f"kubelet-{machine.node_name}", main)


class _Kubelet:
    """One run of a kubelet. The hollow kubelet decides what to do with a pod; containers outlive the run."""

    def __init__(self, client: Client, commits: Commits, machine: SimMachine) -> None:
        self._client = client
        self._commits = commits
        self._machine = machine
        self._changed = machine.changed = asyncio.Event()
        self._informer = Informer(client.of(Pod, keep=False), field_selector=f"spec.nodeName={machine.node_name}")

    async def run(self) -> None:
        changed = self._changed
        self._informer.add_handler(
            Handler(
                on_add=lambda _pod: changed.set(),
                on_update=lambda _old, _new: changed.set(),
                on_delete=lambda _pod: changed.set(),
            )
        )
        async with self._informer.running():
            await self._informer.wait_synced()
            while True:
                changed.clear()
                try:
                    seconds = await self._sync_pods()
                except (api_errors.ApiError, errors.ClientError, TimeoutError):
                    seconds = _RETRY_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with self._client.clock.timeout(seconds):
                        await changed.wait()

    async def _sync_pods(self) -> float:
        await self._report_node()
        pods = list(self._informer.store)
        self._remove_orphans({pod.uid for pod in pods})
        seconds = _LOOK_SECONDS
        for pod in pods:
            seconds = min(seconds, await self._sync_pod(pod))
        return seconds

    def _remove_orphans(self, known: set[str]) -> None:
        """Stop pods that are no longer in the API."""
        runtime, now = self._machine.kubelet.runtime, self._machine.environment.clock.now()
        for sandbox in runtime:
            if sandbox.pod.uid not in known:
                runtime.stop(sandbox.pod.uid, 0, now)
                runtime.forget(sandbox.pod.uid)

    async def _sync_pod(self, pod: Pod) -> float:
        machine = self._machine
        now = machine.environment.clock.now()
        before = machine.kubelet.runtime.get(pod.uid)
        step = machine.kubelet.next_step(pod, now)
        after = machine.kubelet.runtime.get(pod.uid)
        if after is not None and (before is None or after.restarts > before.restarts):
            machine.observer.started(machine, pod.name)
        pods = self._client.of(Pod)
        try:
            match step:
                case Report(status):
                    patch = patches.StrategicMergePatch({"metadata": {"uid": pod.uid}, "status": status})
                    await pods.patch(pod.name, patch, namespace=pod.namespace, subresource="status")
                case Remove():
                    await pods.delete(pod.name, namespace=pod.namespace, grace_period_seconds=0, uid=pod.uid)
                case Wait(until):
                    return _LOOK_SECONDS if until is None else max(0.0, (until - now).total_seconds()) + 0.001
                case other:
                    assert_never(other)
        except (api_errors.NotFound, api_errors.Conflict):
            pass  # the pod is gone, or it is another pod with the same name
        return _LOOK_SECONDS

    async def _report_node(self) -> None:
        """Set the condition Ready and the boot id, if they have changed."""
        machine = self._machine
        node = self._commits.of(NODES).get(machine.node_name)
        if node is None or not machine.has_power:
            return
        status = node.get("status", {})
        if is_ready(node) and status.get("nodeInfo", {}).get("bootID") == machine.boot_id:
            return
        said = {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"bootID": machine.boot_id},
        }
        patch = patches.StrategicMergePatch({"metadata": {"uid": node["metadata"]["uid"]}, "status": said})
        with contextlib.suppress(api_errors.NotFound, api_errors.Conflict):
            await self._client.of(Node).patch(machine.node_name, patch, subresource="status")
