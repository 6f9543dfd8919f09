"""The two control planes that are compared, and the CPU time and memory of their processes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import shutil
import time
from collections.abc import Iterator, Sequence

from bench.apiserver_load import Endpoint
from kube_fairlead_lab.testing import EmbeddedControlPlane, EmbeddedOptions, KubeControlPlane, KubeOptions
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi

__all__ = ["Plane", "account", "cpu_seconds", "embedded", "kube"]


class Plane:
    """A control plane as its processes: starts, pauses and measures them."""

    def __init__(
        self,
        plane: EmbeddedControlPlane | KubeControlPlane,
        processes: Sequence[ManagedProcess],
        made: Sequence[pathlib.Path],
    ) -> None:
        self.name = plane.kind
        self._plane = plane
        self._processes = processes
        self._made = made

    @property
    def endpoint(self) -> Endpoint:
        access = self._plane.access()
        return Endpoint(access.url, str(access.ca_file), access.token or "")

    def empty(self) -> None:
        """Delete all stored data."""
        for path in self._made:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    async def start(self) -> float:
        """Start every process and wait until the server is ready; returns the seconds."""
        began = time.perf_counter()
        await self._plane.start()
        return time.perf_counter() - began

    async def stop(self) -> None:
        """Stop every process; the data stays."""
        for process in reversed(self._processes):
            await process.stop(grace_seconds=10)

    def close(self) -> None:
        """Stop everything and clean up."""
        for process in self._processes:
            process.kill()
        asyncio.run(self._plane.stop())

    def thaw(self) -> None:
        for process in self._processes:
            process.thaw()

    def freeze(self) -> None:
        for process in self._processes:
            process.freeze()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Continue the processes inside the block, and pause them after it."""
        self.thaw()
        time.sleep(0.5)  # timers that expired during the pause fire first
        yield
        self.freeze()

    def wait_furnished(self, namespace: str) -> None:
        """Wait until pods can be created in a new namespace: the embedded server creates its service account."""
        if self.name == "kube":
            return  # no controller runs beside it, and no pod needs an account

        async def wait() -> None:
            accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            async with RawApi(self._plane.access()) as api, api.watch(accounts, resourceVersion="0") as watch:
                await watch.next()

        asyncio.run(wait())

    def resident_megabytes(self) -> float:
        return sum(_resident_megabytes(process.pid) for process in self._processes)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self._processes)


def embedded(folder: pathlib.Path, *flags: str) -> Plane:
    folder.mkdir()
    # As after an installation: byte code is there from the second start on, whatever this shell has set.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    plane = EmbeddedControlPlane(folder, EmbeddedOptions(flags=flags))
    return Plane(plane, [plane.apiserver], [folder / "data", folder / "server-ca.crt", plane.kubeconfig])


def kube(folder: pathlib.Path) -> Plane:
    folder.mkdir()
    plane = KubeControlPlane(folder, KubeOptions(durable=True))
    return Plane(plane, [plane.etcd, plane.apiserver], [folder / "etcd"])


def _resident_megabytes(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def cpu_seconds(pid: int) -> float:
    """CPU time of a process's running threads in nanosecond resolution."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def account(plane: Plane, name: str, role: str = "cluster-admin", *, namespaced: bool = False) -> Endpoint:
    """A service account with a ClusterRole, everywhere or in its namespace only. It is no member of system:masters."""

    async def make() -> str:
        endpoint = plane.endpoint
        access = Access(url=endpoint.url, ca_file=pathlib.Path(endpoint.ca_file), user="admin", token=endpoint.token)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        async with RawApi(access) as api:
            (await api.post(accounts, {"metadata": {"name": name}})).expect(201)
            binding = {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }
            kind = "namespaces/default/rolebindings" if namespaced else "clusterrolebindings"
            (await api.post(f"/apis/rbac.authorization.k8s.io/v1/{kind}", binding)).expect(201)
            token = (await api.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})).expect(201)
            return str(token["status"]["token"])

    return dataclasses.replace(plane.endpoint, token=asyncio.run(make()))
