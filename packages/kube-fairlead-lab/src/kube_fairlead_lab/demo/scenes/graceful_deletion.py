"""KEP-5673 end to end: a virtual machine is deleted with a grace period of 300 s, then 10 s, then 0 s."""

from __future__ import annotations

import asyncio
from typing import Any

from kube_fairlead import grace
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.client import Api
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.watch import Change
from kube_fairlead_lab.demo.context import SceneContext

__all__ = ["play"]

_FINALIZER = "example.com/power-off"
_GROUP = "example.com"


async def play(context: SceneContext) -> None:
    """Run the scene."""
    machines = await _define(context)
    await machines.create(
        {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "default", "finalizers": [_FINALIZER]},
            "spec": {"cpus": 2},
        }
    )
    context.narrate("VirtualMachine web runs; its controller has set a finalizer")
    asked = await machines.delete("web", namespace="default", grace_period_seconds=300)
    _expect(context, asked, 300, "kubectl delete vm/web --grace-period=300")
    async with TaskScope("demo scene") as scope:
        begun = asyncio.Event()
        controller = scope.start(_shut_down(context, machines, asked, begun), name="vm controller")
        await begun.wait()
        shorter = await machines.delete("web", namespace="default", grace_period_seconds=10)
        _expect(context, shorter, 10, "kubectl delete vm/web --grace-period=10")
        longer = await machines.delete("web", namespace="default", grace_period_seconds=60)
        _expect(context, longer, 10, "kubectl delete vm/web --grace-period=60 does not extend it")
        context.narrate("kubectl delete vm/web --grace-period=0 --force")
        await machines.delete("web", namespace="default", grace_period_seconds=0)
        context.check(
            await controller == "powered off", "the controller was notified and powered the machine off at once"
        )
    left = await machines.list(namespace="default")
    context.check(not left.items, "the controller removed the finalizer, and the API server removed the object")


async def _define(context: SceneContext) -> Api[dict[str, Any]]:
    crds = context.client.of(GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"cpus": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "virtualmachines", "kind": "VirtualMachine", "shortNames": ["vm"]}
    made = await crds.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"virtualmachines.{_GROUP}"},
            "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    name, version_then = made["metadata"]["name"], made["metadata"]["resourceVersion"]
    async with crds.follow(field_selector=f"metadata.name={name}", resource_version=version_then) as events:
        async for event in events:
            if isinstance(event, Change) and _is_served(event.object):
                break
    return context.client.of(GroupVersionResource(_GROUP, "v1", "virtualmachines"))


def _is_served(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _expect(context: SceneContext, vm: Any, seconds: int, what: str) -> None:
    shown = f"{what}  ->  deletionGracePeriodSeconds: {grace.requested(vm, native=True)}"
    context.check(grace.requested(vm, native=True) == seconds, shown)


async def _shut_down(context: SceneContext, machines: Api[dict[str, Any]], vm: Any, begun: asyncio.Event) -> str:
    """What a controller does: ask the guest, wait for the grace period, then power off. This guest never answers."""
    async with grace.follow(machines, vm, native=True) as countdown:
        context.narrate(f"controller: asked the guest to shut down; {countdown.remaining:.0f} s left")
        begun.set()
        await countdown.wait()
        context.narrate("controller: grace period over; powering off and removing the finalizer")
    await machines.patch("web", MergePatch({"metadata": {"finalizers": None}}), namespace="default")
    return "powered off"
