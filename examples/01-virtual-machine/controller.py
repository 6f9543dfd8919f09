"""A controller of virtual machines that honours the grace period of a deletion.

When a VirtualMachine is deleted, the controller presses the power button of its machine (SIGTERM to its
process) and waits for the shutdown: for the grace period of the deletion, or `spec.shutdownSeconds` without one. At the
deadline it cuts the power (SIGKILL). It obeys a later delete with less time, or with `--force`, at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
from typing import Any

from kube_fairlead import client, grace
from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.time import format_time
from kube_fairlead.base import process
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import uid_of
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.verbs import Api

MACHINES = GroupVersionResource("vm.example.com", "v1", "virtualmachines")
FINALIZER = "vm.example.com/shutdown"

Json = dict[str, Any]


class Machine:
    """One virtual machine: its object as last seen, its process, and the time that is left to shut it down."""

    def __init__(self, api: Api[Json], vm: Json, *, native: bool) -> None:
        self._api = api
        self._vm = vm
        self._deletion_asked = asyncio.Event()
        self._countdown = grace.Countdown(
            api.client.clock, vm, native=native, default_seconds=vm["spec"]["shutdownSeconds"]
        )
        self.update(vm)

    def update(self, vm: Json) -> None:
        """The object has changed: perhaps it is being deleted now, or has less time than before."""
        self._vm = vm
        self._countdown.update(vm)
        if grace.read(vm) is not None:
            self._deletion_asked.set()

    def gone(self) -> None:
        """The object is gone: this controller removed the finalizer, or another client did."""
        self._countdown.gone()
        self._deletion_asked.set()

    async def live(self) -> None:
        """From boot to shutdown."""
        if self._deletion_asked.is_set():
            await self._release()  # there is no process of ours: an earlier run of this controller has ended it
            return
        if not await self._hold():
            return
        machine = await asyncio.create_subprocess_exec(*self._vm["spec"]["command"])
        try:
            await self._report("Running", pid=machine.pid)
            await self._deletion_asked.wait()
            await self._report(await self._shut_down(machine))
        finally:
            if machine.returncode is None:
                machine.kill()
                await machine.wait()
        await self._release()

    async def _shut_down(self, machine: asyncio.subprocess.Process) -> str:
        if machine.returncode is not None:
            return "ShutDown"
        if not self._countdown.is_forced:
            ends = self._countdown.deadline
            await self._report("ShuttingDown", deadline=format_time(ends) if ends else None)
            machine.terminate()
            try:
                await self._countdown.within(machine.wait())
            except grace.DeadlinePassed:
                pass  # it had its time
            else:
                return "ShutDown"
        machine.kill()
        await machine.wait()
        return "PoweredOff"

    async def _hold(self) -> bool:
        """The finalizer comes before the process, so that no machine is forgotten. False: it is going already."""

        def add(vm: Json) -> Json | None:
            if vm["metadata"].get("deletionTimestamp"):
                return None
            return _with_finalizers(vm, [*_others(vm), FINALIZER])

        try:
            held = await self._api.modify(self._name, add, namespace=self._namespace)
        except errors.NotFound:
            return False
        return FINALIZER in held["metadata"].get("finalizers", ())

    async def _release(self) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._api.modify(self._name, lambda vm: _with_finalizers(vm, _others(vm)), namespace=self._namespace)

    async def _report(self, phase: str, **more: Any) -> None:
        print(f"{self._name}: {phase}", flush=True)
        status = MergePatch({"status": {"phase": phase, **more}})
        with contextlib.suppress(errors.NotFound):
            await self._api.patch(self._name, status, namespace=self._namespace, subresource="status")

    @property
    def _name(self) -> str:
        name: str = self._vm["metadata"]["name"]
        return name

    @property
    def _namespace(self) -> str:
        namespace: str = self._vm["metadata"]["namespace"]
        return namespace


def _others(vm: Json) -> list[str]:
    return [name for name in vm["metadata"].get("finalizers", ()) if name != FINALIZER]


def _with_finalizers(vm: Json, names: list[str]) -> Json:
    return {**vm, "metadata": {**vm["metadata"], "finalizers": names}}


async def run(api_server: client.Client) -> None:
    """Run every virtual machine of the cluster until cancelled; then cut their power."""
    api = api_server.of(MACHINES)
    native = await grace.is_native(api_server)
    machines: dict[str, Machine] = {}
    async with TaskScope("virtual-machines") as scope:

        def seen(vm: Json) -> None:
            known = machines.get(uid_of(vm))
            if known is not None:
                known.update(vm)
                return
            machine = machines[uid_of(vm)] = Machine(api, vm, native=native)
            scope.start(machine.live(), name=vm["metadata"]["name"])

        def gone(vm: Json) -> None:
            machines.pop(uid_of(vm)).gone()

        informer = Informer(api)
        informer.add_handler(Handler(on_add=seen, on_update=lambda _old, vm: seen(vm), on_delete=gone))
        await informer.run()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=pathlib.Path, help="how to reach the API server; as kubectl finds it")
    arguments = parser.parse_args()

    async def connected() -> None:
        async with client.connect(kubeconfig_path=arguments.kubeconfig, component="vm-controller") as api_server:
            await run(api_server)

    process.run(connected)


if __name__ == "__main__":
    main()
