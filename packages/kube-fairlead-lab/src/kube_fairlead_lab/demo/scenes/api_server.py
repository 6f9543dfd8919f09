"""An API server in one process: create, watch, patch, delete, and a rejected request."""

from __future__ import annotations

import asyncio

import click

from kube_fairlead.api import core_v1, errors, wire
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.watch import Change
from kube_fairlead_lab.demo.context import SceneContext

__all__ = ["play"]

_EXPECTED = [("ADDED", "greeting"), ("MODIFIED", "greeting"), ("DELETED", "greeting")]


async def play(context: SceneContext) -> None:
    """Run the scene."""
    config_maps = context.client.of(core_v1.ConfigMap)
    seen: list[tuple[str, str]] = []
    watching = asyncio.Event()

    async def watch() -> None:
        page = await config_maps.list(namespace="default")
        async with config_maps.follow(namespace="default", resource_version=page.resource_version) as events:
            watching.set()
            async for event in events:
                if not isinstance(event, Change):
                    continue
                name = event.object.metadata.name
                seen.append((event.type.value, name))
                context.narrate(f"watch: {click.style(event.type.value, fg='cyan')} ConfigMap {name}")
                if len(seen) == len(_EXPECTED):
                    return

    async with TaskScope("demo scene") as scope:
        scope.start(watch(), name="watch")
        await watching.wait()
        made = await config_maps.create(
            core_v1.ConfigMap(metadata=ObjectMeta(name="greeting", namespace="default"), data={"text": "hello"})
        )
        context.check(made.metadata.uid, "created, with a uid and a resourceVersion")
        try:
            await config_maps.create(wire.replace(made, metadata=ObjectMeta(name="greeting", namespace="default")))
        except errors.AlreadyExists as error:
            context.check(error.code == 409, f"a second create is rejected: {error}")
        changed = await config_maps.patch("greeting", MergePatch({"data": {"text": "hullo"}}), namespace="default")
        context.check(changed.data == {"text": "hullo"}, "patched")
        await config_maps.delete("greeting", namespace="default")
    context.check(seen == _EXPECTED, "the watch delivered every change once, in order")
    await _reject(context)
    context.narrate("use kubectl with such a server: " + click.style("export KUBECONFIG=...", bold=True))


async def _reject(context: SceneContext) -> None:
    transitions = "/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions"
    body = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": "no-node"},
        "spec": {"start": "DrainStarted", "end": "DrainComplete", "driver": "example.com/drain"},
    }
    try:
        await context.client.request("POST", transitions, body=body)
    except errors.Invalid as error:
        context.check(error.causes, f"a transition without a node is rejected: {error.causes[0]['message']}")
    else:
        context.check(held=False, what="a transition without a node is rejected")
