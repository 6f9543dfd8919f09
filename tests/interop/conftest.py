"""Real clients for the embedded server: kubectl of two versions, the real controllers, a client-go program.

Every test of a client also runs against the real kube-apiserver: that is what proves the test itself right.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.rawhttp import RawApi

COMMAND_SECONDS = 60


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Kubectl:
    """kubectl in one namespace of one server."""

    def __init__(self, binary: Path, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self.folder = folder
        self._prefix = [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            f"--cache-dir={folder / 'cache'}",
        ]

    async def __call__(self, *arguments: str, stdin: str = "", code: int | None = 0, **environment: str) -> Said:
        """Run it to its end; `code` is what it must exit with, None when that does not matter."""
        process = await asyncio.create_subprocess_exec(
            *self._prefix,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, **environment},
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                out, err = await process.communicate(stdin.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        said = Said(process.returncode, out.decode(), err.decode())
        if code is not None:
            assert said.code == code, f"kubectl {' '.join(arguments)} exited {said.code}: {said.out}{said.err}"
        return said

    @contextlib.asynccontextmanager
    async def following(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """Start it, hand out its lines, and end it."""
        process = await asyncio.create_subprocess_exec(
            *self._prefix, *arguments, stdout=asyncio.subprocess.PIPE, cwd=self.folder
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                yield process.stdout
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@pytest.fixture(params=["1.36", "1.34"])
def kubectl(request: pytest.FixtureRequest, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Kubectl:
    """The current kubectl, and the oldest that supports such a server."""
    binaries = KubeBinaries.find(request.param)
    present = not binaries.missing("kubectl")
    require_real(f"kubectl {request.param}", present=present, remedy="run: make kube")
    return Kubectl(binaries.component("kubectl"), control_plane.kubeconfig, namespace, tmp_path)


class PodKeeper:
    """As much of a kubelet as clients notice: bound pods run, and deleted pods go when they are asked to."""

    def __init__(self, api: RawApi) -> None:
        self._api = api

    async def run(self, selector: str) -> None:
        """Look after the pods that a field selector chooses, until cancelled."""
        while True:
            with contextlib.suppress(EOFError, TimeoutError):
                async with self._api.watch("/api/v1/pods", fieldSelector=selector, timeoutSeconds=20) as watch:
                    while True:
                        event = await watch.next()
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            await self._look_after(event["object"])

    async def _look_after(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            (await self._api.delete(path, options)).expect(200, 404, 409)
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            finished = pod["spec"]["restartPolicy"] == "Never"
            status = {"phase": "Succeeded"} if finished else RUNNING
            (await self._api.patch(f"{path}/status", {"status": status})).expect(200, 404)


RUNNING = {
    "phase": "Running",
    "podIP": "10.99.0.1",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
}


@pytest.fixture
async def pod_keeper(control_plane: ControlPlane, namespace: str) -> AsyncIterator[None]:
    """Bound pods of the test's namespace have someone who looks after them."""
    async with RawApi(control_plane.access()) as api:
        keeper = asyncio.create_task(
            PodKeeper(api).run(f"spec.nodeName!=,metadata.namespace={namespace}"), name="pod-keeper"
        )
        yield
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper


@pytest.fixture
async def make_node(api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[Callable[..., Any]]:
    """Nodes that are ready and have room."""
    made: list[str] = []

    async def make_node(**metadata: Any) -> str:
        name = unique_name("node")
        (await api.post("/api/v1/nodes", {"metadata": {"name": name, **metadata}})).expect(201)
        made.append(name)
        room = {"cpu": "8", "memory": "16Gi", "pods": "50"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        (await api.patch(f"/api/v1/nodes/{name}/status", {"status": status})).expect(200)
        (await api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})).expect(200)
        return name

    yield make_node
    for name in made:
        (await api.delete(f"/api/v1/nodes/{name}")).expect(200, 404)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """An old kubectl is there to try our server; the real one has been tried with it by others."""
    del config
    items[:] = [item for item in items if not _old_on_real(item)]


def _old_on_real(item: pytest.Item) -> bool:
    chosen = getattr(getattr(item, "callspec", None), "params", {})
    return chosen.get("control_plane") == "kube" and chosen.get("kubectl") == "1.34"
