"""The memory of an idle agent: it runs on every node.

Two agents run as processes beside the embedded API server, each for a node of its own: one without and one with the
shutdown manager, which has a bus, a logind and a container runtime of its own to talk to.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pathlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench.harness import BenchmarkSkipped, Measurement, at_most, benchmark
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready

BAR_MEGABYTES = 40
IDLE_SECONDS = 60
_START_SECONDS = 30
_ROOT = pathlib.Path(__file__).parents[1]


@benchmark("agent-memory")
def measure() -> Iterator[Measurement]:
    if not pathlib.Path("/proc/self/status").exists():
        raise BenchmarkSkipped("memory is read from /proc, which this system does not have")
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        found = asyncio.run(_measure(pathlib.Path(folder)))
    for what, megabytes in found.items():
        yield Measurement(what, megabytes, "MB", at_most(BAR_MEGABYTES), f"RSS after {IDLE_SECONDS} s")
    if len(found) == 1:
        yield Measurement("agents with the shutdown manager", 0, "", None, "not measured: no dbus-daemon here")


async def _measure(folder: pathlib.Path) -> dict[str, float]:
    plane = EmbeddedControlPlane(folder)
    agents: dict[str, ManagedProcess] = {}
    try:
        await plane.start()
        async with contextlib.AsyncExitStack() as stack:
            agents["idle agent"] = await _start(plane, folder, "plain", [], {})
            if shutil.which("dbus-daemon") is not None:
                flags, environment = await stack.enter_async_context(_machine(folder))
                what = "idle agent with the shutdown manager"
                agents[what] = await _start(plane, folder, "machine", flags, environment)
            await asyncio.sleep(IDLE_SECONDS)
            return {what: _resident_megabytes(agent.pid) for what, agent in agents.items()}
    finally:
        for agent in agents.values():
            agent.kill()
        await plane.stop()


async def _start(
    plane: EmbeddedControlPlane, folder: pathlib.Path, node: str, flags: list[str], environment: dict[str, str]
) -> ManagedProcess:
    """An agent that holds the Lease of its node."""
    async with plane.client() as client:
        await client.of(Node).create(Node(metadata=ObjectMeta(name=node)))
    own = folder / node
    own.mkdir()
    command = ["env", *(f"{name}={value}" for name, value in environment.items())]
    command += [str(pathlib.Path(sys.executable).with_name("fairlead")), "agent", f"--kubeconfig={plane.kubeconfig}"]
    command += [f"--node-name={node}", f"--registry-dir={own / 'r'}", f"--state-dir={own / 's'}", *flags]
    agent = ManagedProcess(node, command, folder=own)
    agent.start()

    async def holds_lease() -> bool:
        return "holds the lease" in agent.last_words()

    try:
        await wait_until_ready(holds_lease, [agent], what=f"agent of {node}", timeout_seconds=_START_SECONDS)
    except BaseException:
        agent.kill()
        raise
    return agent


@contextlib.asynccontextmanager
async def _machine(folder: pathlib.Path) -> AsyncIterator[tuple[list[str], dict[str, str]]]:
    """A bus with a logind, and a container runtime: the flags and the environment of an agent beside them."""
    sys.path.append(str(_ROOT / "packages" / "kube-fairlead"))  # the fakes of its tests
    fakelogind: Any = importlib.import_module("tests.unit.agent.shutdown.fakelogind")
    fakeruntime: Any = importlib.import_module("tests.unit.agent.shutdown.cri.fakeruntime")
    grpclib: Any = importlib.import_module("grpclib.server")
    config = folder / "agent.yaml"
    socket = folder / "cri.sock"
    config.write_text(
        f"shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\ncontainerRuntimeEndpoint: unix://{socket}\n",
        encoding="utf-8",
    )
    logind = fakelogind.FakeLogind()
    logind.delay_usec = 60_000_000  # long enough: nothing is written to this machine's own /etc
    server = grpclib.Server([fakeruntime.FakeRuntime()])
    with fakelogind.private_bus(folder) as address:
        async with logind.on(address):
            await server.start(path=str(socket))
            try:
                yield [f"--config={config}", "--shutdown-owner=agent"], {"DBUS_SYSTEM_BUS_ADDRESS": address}
            finally:
                server.close()
                await server.wait_closed()
    logind.close()


def _resident_megabytes(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS"))
