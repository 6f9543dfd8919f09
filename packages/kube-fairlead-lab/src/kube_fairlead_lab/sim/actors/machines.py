"""Machines: they boot, run containers, announce a shutdown, and power off, independent of the agent's process."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from kube_fairlead.agent.shutdown.pod_cache import CachedPod, PodCache
from kube_fairlead.agent.shutdown.pod_runtime import OnExit, RunningPod, RuntimeFailed
from kube_fairlead.agent.shutdown.state_file import Boot, ShutdownState, StateFile
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.base.timeouts import timeout
from kube_fairlead.lifecycle.shutdown_config import Period, ShutdownConfig
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd
from kube_fairlead_lab.hollow import Kubelet, NodePlan
from kube_fairlead_lab.sim.environment import Environment

__all__ = [
    "PERIODS",
    "SHUTDOWN",
    "MachineObserver",
    "SimMachine",
    "SimMemory",
    "SimPodCache",
    "SimRuntime",
    "SimShutdownListener",
]

PERIODS: Final = (Period(0, 10), Period(1000, 5), Period(2_000_000_000, 5))
SHUTDOWN: Final = ShutdownConfig(PERIODS)

_OFF_SECONDS: Final = (2.0, 20.0)
_KILL_SECONDS_MOST: Final = 1.5
_STUCK_SECONDS: Final = 6.0  # for a pod whose last call to a disk or network does not return
_STUCK: Final = 4  # one pod in so many is stuck
_STATE: Final = "shutdown-state.json"
_PODS: Final = "pods.json"


class MachineObserver(Protocol):
    """Observes what agents and kubelets do to a machine."""

    def heard(self, machine: SimMachine) -> None:
        """An agent has received the shutdown announcement."""
        ...

    def asked(self, machine: SimMachine, pod: RunningPod, grace_seconds: float, known: CachedPod | None) -> None:
        """An agent terminates a pod; `known` is what the agent knows of it."""
        ...

    def started(self, machine: SimMachine, name: str) -> None:
        """The kubelet starts containers."""
        ...

    def released(self, machine: SimMachine) -> None:
        """An agent releases the inhibitor lock."""
        ...

    def forgotten(self, machine: SimMachine) -> None:
        """An agent has finished a shutdown and removes its state."""
        ...


class SimMachine:
    """One machine. Its processes are actors that stop and start with it."""

    def __init__(self, environment: Environment, node_name: str, number: int, observer: MachineObserver) -> None:
        self.environment = environment
        self.node_name = node_name
        self.observer = observer
        self.files: dict[str, bytes] = {}
        self.is_disk_full = False
        self.is_troubled = True
        self.is_on = True
        self.has_power = True  # False: it is unplugged
        self.boots = 1
        self.booted_at = 0.0  # true time
        self.preparing = False
        self.down_since = 0.0
        self.called_off_at: dt.datetime | None = None  # when the last shutdown was cancelled
        self.listener: SimShutdownListener | None = None
        self.cache: PodCache | None = None  # of the current agent
        self.is_held = False
        self.needed_seconds = 0.0
        self.changed = asyncio.Event()  # for the kubelet: a container has changed
        plan = NodePlan(name=node_name, address="172.16.0.1", pod_cidr=f"10.64.{number % 250}.0/24")
        self.kubelet = Kubelet(plan, boot_id=self.boot_id, on_change=lambda _pod: self.changed.set())
        self._wake_up = asyncio.Event()  # for the machine: the lock was released, or the shutdown cancelled

    @property
    def boot_id(self) -> str:
        """The id of the current boot."""
        return f"{self.node_name}-boot-{self.boots}"

    def as_seen_by(self, clock: Clock) -> Boot:
        """Return the boot id and time, by a process's clock."""
        up = self.environment.loop.time() - self.booted_at
        return Boot(self.boot_id, clock.now() - dt.timedelta(seconds=up))

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        if self.is_disk_full:
            raise OSError(28, "No space left on device", name)
        self.files[name] = content

    # ---- shutdown

    def go_down(self) -> None:
        """Begin a shutdown."""
        if self.preparing or not self.is_on:
            return
        self.environment.trace.add(self.node_name, "the machine announces a shutdown")
        self.preparing = True
        self.called_off_at = None
        self.down_since = self.environment.loop.time()
        self._wake_up.clear()
        self._announce()
        self.environment.loop.start(self.environment.loop.harness, self._power(), name=f"power of {self.node_name}")

    def call_off(self) -> None:
        """Cancel the shutdown."""
        if self.preparing and self.is_on and self.is_held:
            self.environment.trace.add(self.node_name, "the shutdown is cancelled")
            self.called_off_at = self.environment.clock.now()
            self.preparing = False
            self._wake_up.set()
            self._announce()

    async def lose_power(self) -> None:
        """Lose power without an announcement; the machine boots a little later."""
        if self.is_on:
            await self._restart("the machine loses power")

    def unplug(self) -> None:
        """Unplug the machine until `plug_in`."""
        self.has_power = False
        if self.is_on:
            self._switch_off("the machine is unplugged")

    def plug_in(self) -> None:
        """Plug the machine in, if it is unplugged."""
        self.has_power = True
        if not self.is_on and not self.preparing:
            self._boot()

    def release(self) -> None:
        """Release the inhibitor lock."""
        self.is_held = False
        self._wake_up.set()

    def record(self, what: str) -> None:
        """Record an operation of its agent."""
        self.environment.trace.add(f"agent-{self.node_name}", what)

    def _announce(self) -> None:
        if self.listener is not None:
            self.listener.words.put_nowait(self.preparing)

    async def _power(self) -> None:
        """Wait for the inhibitor lock up to its limit, power off, and boot again."""
        environment, boot = self.environment, self.boots
        if self.is_held:
            with contextlib.suppress(TimeoutError):
                async with timeout(self.needed_seconds):
                    await self._wake_up.wait()
        if not self.preparing or self.boots != boot:
            return
        environment.counts["machines shut down"] += 1
        await self._restart("the machine powers off")

    async def _restart(self, why: str) -> None:
        self._switch_off(why)
        await self.environment.clock.sleep(self.environment.chance.uniform(*_OFF_SECONDS))
        if self.has_power and not self.is_on:
            self._boot()

    def _switch_off(self, why: str) -> None:
        self.is_on = self.preparing = self.is_held = False
        self.environment.trace.add(self.node_name, why)
        for name in self._processes():
            self.environment.halt(self.environment.actors[name])
        self.kubelet.power_off(self.environment.clock.now())

    def _boot(self) -> None:
        self.boots += 1
        self.booted_at = self.environment.loop.time()
        self.listener = None
        self.is_on = True
        self.environment.trace.add(self.node_name, "the machine has booted")
        for sandbox in self.kubelet.runtime:
            self.kubelet.runtime.forget(sandbox.pod.uid)
        self.kubelet.boot(self.boot_id)
        for name in self._processes():
            self.environment.revive(self.environment.actors[name])

    def _processes(self) -> list[str]:
        kinds = ("driver", "drain", "kubelet", "agent")
        return [name for kind in kinds if (name := f"{kind}-{self.node_name}") in self.environment.actors]

    # ---- the kubelet as the agent controls it

    async def ends_pods(self) -> bool:
        """Return False: the kubelet leaves shutdowns to the agent."""
        return False

    async def stop(self) -> None:
        """Stop the kubelet's process."""
        if self.kubelet.is_running:
            self.environment.trace.add(self.node_name, "the kubelet is stopped")
            self.kubelet.stop()
            self.environment.halt(self.environment.actors[f"kubelet-{self.node_name}"])

    async def start(self) -> None:
        """Start the kubelet's process."""
        if not self.kubelet.is_running:
            self.environment.trace.add(self.node_name, "the kubelet is started")
            self.kubelet.start()
            self.environment.revive(self.environment.actors[f"kubelet-{self.node_name}"])


class SimShutdownListener:
    """The shutdown listener of one agent process. Its lock outlives it, as in a file descriptor store."""

    problem = ""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self.words: asyncio.Queue[bool] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        """Listen."""
        machine = self._machine
        machine.listener = self
        if not machine.preparing:
            machine.is_held = True
            machine.needed_seconds = needed_seconds
        yield

    @property
    def preparing(self) -> bool | None:
        """Whether a shutdown is announced."""
        if self._machine.preparing:
            self._machine.observer.heard(self._machine)
        return self._machine.preparing

    async def next_announcement(self) -> bool:
        """Wait for the next announcement."""
        is_down = await self.words.get()
        self._machine.record("is notified of the shutdown" if is_down else "is notified that the shutdown is cancelled")
        if is_down:
            self._machine.observer.heard(self._machine)
        else:
            self._machine.is_held = True
        return is_down

    async def release(self) -> None:
        """Release the lock."""
        self._machine.record("releases the inhibitor lock")
        self._machine.observer.released(self._machine)
        self._machine.release()


class SimRuntime:
    """The container runtime of a machine, for the agent."""

    def __init__(self, machine: SimMachine, chance: Randomness) -> None:
        self._machine = machine
        self._chance = chance
        self._clock = machine.environment.clock

    async def running(self) -> Sequence[RunningPod]:
        """Return every pod with a running container."""
        await self._answer()
        now = self._clock.now()
        return [_running(sandbox.pod) for sandbox in self._machine.kubelet.runtime if not sandbox.has_ended(now)]

    async def end(
        self, pod: RunningPod, *, grace_seconds: float, hooks: Mapping[str, Mapping[str, Any]], on_exit: OnExit
    ) -> Mapping[str, ContainerEnd]:
        """Terminate a pod."""
        del hooks
        cache = self._machine.cache
        known = None if cache is None else cache.pods.get(pod.uid)
        await self._answer()
        self._machine.record(f"stops pod {pod.name} with a grace period of {grace_seconds:.1f} s")
        self._machine.observer.asked(self._machine, pod, grace_seconds, known)
        sandbox = self._machine.kubelet.runtime.stop(pod.uid, grace_seconds, self._clock.now())
        if sandbox is None:
            return {}
        if sandbox.ends_at is None:
            await asyncio.Event().wait()
            raise AssertionError("not set for a simulated pod")
        await self._clock.sleep(max(0.0, (sandbox.ends_at - self._clock.now()).total_seconds()))
        end = ContainerEnd(sandbox.exit_code, sandbox.ends_at)
        if end.exit_code:
            await self._clock.sleep(_moment(pod) + (_STUCK_SECONDS if _is_stuck(pod) else 0.0))
        on_exit("c", end)
        return {"c": end}

    async def tear_down(self, pod: RunningPod) -> None:
        """Remove the network of a pod."""
        await self._answer()
        await self._clock.sleep(_moment(pod))

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        """How the containers of a pod ended."""
        await self._answer()
        sandbox = self._machine.kubelet.runtime.get(pod.uid)
        if sandbox is None or sandbox.ends_at is None or not sandbox.has_ended(self._clock.now()):
            return {}
        return {"c": ContainerEnd(sandbox.exit_code, sandbox.ends_at)}

    async def _answer(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))
        if self._machine.is_troubled and self._chance.random() < 0.02:
            raise RuntimeFailed("the runtime is being restarted")


def _moment(pod: RunningPod) -> float:
    """How long a busy machine takes to report a killed container; it differs by pod."""
    return _KILL_SECONDS_MOST * (zlib.crc32(pod.uid.encode()) % 100) / 100


def _is_stuck(pod: RunningPod) -> bool:
    return zlib.crc32(pod.uid[::-1].encode()) % _STUCK == 0


def _running(pod: Any) -> RunningPod:
    return RunningPod(uid=pod.uid, namespace=pod.namespace, name=pod.name)


class SimMemory(StateFile):
    """The state file of a shutdown, on the machine's disk."""

    def __init__(self, machine: SimMachine) -> None:
        super().__init__(Path("/nowhere"))
        self._machine = machine

    def load(self) -> ShutdownState | None:
        """Return the stored state."""
        content = self._machine.files.get(_STATE)
        return None if content is None else msgspec.json.decode(content, type=ShutdownState)

    def save(self, state: ShutdownState) -> None:
        """Remember."""
        self._machine.write(_STATE, msgspec.json.encode(state))

    def clear(self) -> None:
        """Forget."""
        self._machine.observer.forgotten(self._machine)
        self._machine.files.pop(_STATE, None)


class SimPodCache(PodCache):
    """The agent's pod cache, on the machine's disk."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        super().__init__(Path("/nowhere"), machine.node_name)

    def _load(self) -> list[CachedPod]:
        content = self._machine.files.get(_PODS)
        return [] if content is None else msgspec.json.decode(content, type=list[CachedPod])

    def _save(self, pods: Iterable[CachedPod]) -> None:
        self._machine.write(_PODS, msgspec.json.encode(list(pods)))
