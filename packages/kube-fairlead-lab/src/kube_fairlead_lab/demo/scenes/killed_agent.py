"""An agent is killed with SIGKILL during a transition, and the next agent resumes it."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys
import tempfile
from collections.abc import AsyncIterator

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.drivers import sdk
from kube_fairlead_lab.demo.context import SceneContext
from kube_fairlead_lab.demo.scenes import transition

__all__ = ["play"]

_NODE = "rack-8"


async def play(context: SceneContext) -> None:
    """Run the scene."""
    await context.client.of(Node).create(Node(metadata=ObjectMeta(name=_NODE)))
    driver = transition.Firmware(context)
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        registry = pathlib.Path(folder) / "registry"
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(sdk.serving(driver, sdk.Options(registry=registry)))
            changes = await stack.enter_async_context(
                transition.ask(context, f"update-{_NODE}", "firmware-update", _NODE)
            )
            async with _agent(context, registry) as first:
                await transition.until(changes, "Claimed")
                await driver.working.wait()
                first.kill()
                await first.wait()
                context.narrate(f"kill -9 {first.pid}: the agent is killed while the driver works")
            left = await transition.state_of(context, _NODE)
            context.check(
                left == "UpdatingFirmware", "the event is still Claimed, and the Node condition shows UpdatingFirmware"
            )
            driver.working.clear()
            async with _agent(context, registry):
                await driver.working.wait()
                context.check(
                    driver.calls == ["start", "end", "end"] and len(driver.uids) == 1,
                    "the next agent calls the driver for the missing step only, with the same event uid",
                )
                driver.may_finish.set()
                await transition.until(changes, "Succeeded")
                await transition.until(changes, "gone")
            context.check(
                await transition.state_of(context, _NODE) == "FirmwareUpdated",
                "Succeeded; the Node condition shows FirmwareUpdated",
            )


@contextlib.asynccontextmanager
async def _agent(context: SceneContext, registry: pathlib.Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `fairlead agent` in its own process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kube_fairlead.cli", "agent", f"--node-name={_NODE}"),
        *(f"--kubeconfig={context.kubeconfig}", f"--registry-dir={registry}", "--shutdown-owner=kubelet"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    context.narrate(f"fairlead agent --node-name {_NODE}  (pid {process.pid})")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
