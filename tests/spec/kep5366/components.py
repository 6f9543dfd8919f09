"""The components of the proposal as processes, seen only from outside: signals in, health and metrics out."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import aiohttp

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess

# Short retries, for quick hand-backs; a lease that a busy machine does not lose.
ELECTION = (
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=9s",
    "--leader-elect-retry-period=200ms",
)
# For a replica without others: it waits for them only so long before it leads again.
ALONE = "--leader-elect-retry-period=40ms"
# The counterparts of the proposal's kube-controller-manager, cloud-controller-manager and kube-scheduler.
_CLI = (sys.executable, "-m", "kube_fairlead.cli")
COMPONENTS = {
    "controller-manager": (*_CLI, "controller-manager"),
    "cloud-controller-manager": (*_CLI, "cloud-controller-manager"),
    "hollow-scheduler": (sys.executable, str(Path(__file__).with_name("scheduler.py"))),
}
INVENTORY = "platforms: [on-prem]\ninstances: []\n"


async def until(condition: Callable[[], Awaitable[bool]], *, what: str, within_seconds: float = 40) -> None:
    """Ask until it is so: nothing announces what other processes do."""
    clock = RealClock()
    try:
        async with clock.timeout(within_seconds):
            while not await condition():
                await clock.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {within_seconds:g} s") from None


@dataclasses.dataclass
class Seen:
    """What one scrape says."""

    health: str
    metrics: str

    def value(self, metric: str) -> float:
        """The sum over all labels."""
        found = re.findall(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", self.metrics, re.MULTILINE)
        return sum(float(number) for number in found)

    @property
    def loops(self) -> float:
        return self.value("fairlead_running_controllers")


class Replica:
    """One process of a component."""

    def __init__(
        self,
        component: str,
        name: str,
        flags: Sequence[str],
        folder: Path,
        *,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        reserved = ReservedPort()
        self._port = reserved.number
        reserved.release()
        command = [
            "/usr/bin/env",
            *(f"{key}={value}" for key, value in variables.items()),
            *COMPONENTS[component],
            f"--secure-port={self._port}",
            "--authorization-always-allow-paths=*",
            *ELECTION,
            *flags,
        ]
        self.process = ManagedProcess(f"{component}-{name}", command, folder=folder)
        self.process.start()

    async def see(self) -> Seen | None:
        """Its health and metrics; None while it does not serve."""
        base = f"https://127.0.0.1:{self._port}"
        try:
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{base}/healthz?verbose", ssl=False) as got:
                    health = await got.text()
                async with session.get(f"{base}/metrics", ssl=False) as got:
                    return Seen(health, await got.text())
        except aiohttp.ClientError:
            return None

    async def leads(self) -> bool:
        seen = await self.see()
        return seen is not None and seen.loops >= 1

    async def follows(self) -> bool:
        seen = await self.see()
        return seen is not None and "follows" in seen.health

    async def shown(self) -> Seen:
        seen = await self.see()
        assert seen is not None, self.process.last_words()
        return seen

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    @property
    def resident_kilobytes(self) -> int:
        return self._status("VmRSS")

    @property
    def threads(self) -> int:
        return self._status("Threads")

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def _status(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
        assert found is not None
        return int(found[1])

    async def stop(self) -> None:
        await self.process.stop(grace_seconds=20)
