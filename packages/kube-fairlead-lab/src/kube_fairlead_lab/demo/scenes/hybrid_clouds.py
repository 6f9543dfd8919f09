"""Two clouds and one unmanaged node in one cluster: a machine is deleted in one cloud, and only its node is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kube_fairlead.api import core_v1, errors
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.client.patches import StrategicMergePatch
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead_lab.demo.context import SceneContext

__all__ = ["play"]

_SETTINGS = CloudSettings(node_monitor_period_seconds=0.2)
_WAITING = core_v1.Taint(key=wellknown.TAINT_UNINITIALIZED, value="true", effect="NoSchedule")
_LIMIT_SECONDS = 20.0


async def play(context: SceneContext) -> None:
    """Run the scene."""
    sky, sea = FakeCloud("sky", name="sky"), FakeCloud("sea", name="sea")
    stopping = asyncio.Event()
    for cloud, name in ((sky, "sky-1"), (sky, "sky-2"), (sea, "sea-1"), (sea, "sea-2")):
        cloud.add(name, zone=f"{cloud.name}-north")
        await _join(context, name, waits=True)
    garage = await _join(context, "garage", waits=False)
    async with TaskScope("demo scene") as scope:
        for cloud in (sky, sea):
            manager = CloudManager(cloud, cloud.supported_platforms(), _SETTINGS)
            scope.start(manager.run(context.client, DiscardedMetrics(), stopping), name=cloud.name)
        try:
            await _follow(context, sky, garage)
        finally:
            stopping.set()
    asked = {about for call in sky.calls if call.name == "exists" for about in call.about}
    context.check(asked == {"sky://sky-1"}, "the manager asked the cloud about this machine before it deleted the node")
    for name in ("sky-2", "sea-1", "sea-2", "garage"):
        await context.client.of(core_v1.Node).delete(name)


async def _follow(context: SceneContext, sky: FakeCloud, garage: core_v1.Node) -> None:
    for name in ("sky-1", "sky-2", "sea-1", "sea-2"):
        await _until(context, name, lambda node: node is not None and not wellknown.has_taint(node, _WAITING.key))
    node = await context.client.of(core_v1.Node).get("sea-1")
    platform = node.metadata.labels[wellknown.LABEL_PLATFORM]
    context.check(
        platform == "sea",
        f"each cloud initialized its own nodes: sea-1 has providerID {node.spec.provider_id}, label {platform}",
    )
    # The whole object with its resourceVersion: this also shows a write that changes nothing else.
    before = await context.client.of(core_v1.Node).get("garage")
    sky.remove("sky-1")
    for name in ("sky-1", "sea-1"):
        await _set_ready(context, name, "Unknown")
    silent = await _set_ready(context, "garage", "Unknown")
    context.narrate("the machine of sky-1 is deleted in its cloud; sky-1, sea-1 and garage become NotReady")
    await _until(context, "sky-1", lambda node: node is None)
    left = {one.name for one in (await context.client.of(core_v1.Node).list_all()).items}
    context.check(
        left >= {"sky-2", "sea-1", "sea-2", "garage"}, "only sky-1 was deleted; sea-1 and garage are still there"
    )
    after = await context.client.of(core_v1.Node).get("garage")
    context.check(before == garage and after == silent, "no controller wrote to the unmanaged node")


async def _join(context: SceneContext, name: str, *, waits: bool) -> core_v1.Node:
    taints = (_WAITING,) if waits else ()
    node = core_v1.Node(metadata=ObjectMeta(name=name), spec=core_v1.NodeSpec(taints=taints))
    await context.client.of(core_v1.Node).create(node)
    return await _set_ready(context, name, "True")


async def _set_ready(context: SceneContext, name: str, status: str) -> core_v1.Node:
    patch = StrategicMergePatch({"status": {"conditions": [{"type": "Ready", "status": status}]}})
    return await context.client.of(core_v1.Node).patch(name, patch, subresource="status")


async def _until(context: SceneContext, name: str, wanted: Callable[[core_v1.Node | None], bool]) -> None:
    nodes = context.client.of(core_v1.Node)
    async with context.clock.timeout(_LIMIT_SECONDS):
        while True:
            try:
                node = await nodes.get(name)
            except errors.NotFound:
                node = None
            if wanted(node):
                return
            await context.clock.sleep(0.05)
