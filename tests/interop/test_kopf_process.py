"""An operator under `kopf run`, a process of its own: timers, daemons, retries, and life after restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

OPERATOR = Path(__file__).with_name("kopf_operator.py")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
LINE_SECONDS = 30
GROUP = "process.example.com"

Json = dict[str, Any]


class Operator:
    """A running operator and what it tells."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, *wanted: str) -> None:
        """Wait for lines, in whichever order."""
        assert self._process.stdout is not None
        left = set(wanted)
        async with asyncio.timeout(LINE_SECONDS):
            while left:
                line = await self._process.stdout.readline()
                assert line, f"the operator ended without {left}"
                left.discard(line.decode().strip())

    async def stop(self) -> None:
        """Ask it to end, as whoever runs it does."""
        self._process.terminate()
        async with asyncio.timeout(LINE_SECONDS):
            assert await self._process.wait() == 0


@contextlib.asynccontextmanager
async def operating(plane: ControlPlane, namespace: str) -> AsyncIterator[Operator]:
    """An operator for one namespace, ended by force at the latest here."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        f"--namespace={namespace}",
        str(OPERATOR),
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig), "WIDGET_GROUP": GROUP},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Operator(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def define(api: RawApi) -> None:
    manifest = custom_resource_definition("widgets", GROUP, kind="Widget", version={"subresources": {"status": {}}})
    (await api.post(CRDS, manifest)).expect(201, 409)
    await api.poll(f"/apis/{GROUP}/v1/widgets", lambda answer: answer.code == 200)


def widget(name: str) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}}


async def test_an_operator_and_its_next_life(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    await define(api)
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets"
    async with api.watch(path) as watch:
        async with operating(control_plane, namespace) as operator:
            (await api.post(path, widget("w"))).expect(201)
            await operator.says("attended w")
            await watch.until(lambda event: event["object"].get("status", {}).get("create") == {"retries": 1})
            ticking = await watch.until(lambda event: event["object"]["status"].get("ticks") == 3)
            assert ticking["object"]["metadata"]["finalizers"] == [FINALIZER]
            assert ticking["object"]["metadata"]["generation"] == 1
            await operator.stop()
        async with operating(control_plane, namespace) as operator:
            await operator.says("resumed w", "attended w")
            (await api.delete(f"{path}/w")).expect(200)
            await operator.says("left w", "deleted w")
            await watch.until(lambda event: event["type"] == "DELETED")
    (await api.delete(f"{CRDS}/widgets.{GROUP}")).expect(200)


async def test_an_operator_outlives_the_server(isolated_control_plane: ControlPlane) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/widgets"
    async with RawApi(isolated_control_plane.access()) as api:
        await define(api)
        async with operating(isolated_control_plane, "default") as operator:
            async with api.watch(path) as watch:
                (await api.post(path, widget("before"))).expect(201)
                await operator.says("attended before")
                # Until its finalizer is stored, a delete leaves it nothing to say; kopf attends to an object first.
                await watch.until(is_settled)
            await isolated_control_plane.restart(hard=True)
            (await api.post(path, widget("after"))).expect(201)
            await operator.says("attended after")
            (await api.delete(f"{path}/before")).expect(200)
            await operator.says("left before", "deleted before")


def is_settled(event: Json) -> bool:
    """Whether the operator has written all that it writes about an object."""
    found = event["object"]
    status = found.get("status", {})
    written = found["metadata"].get("finalizers"), status.get("create"), status.get("ticks")
    return written == ([FINALIZER], {"retries": 1}, 3)
