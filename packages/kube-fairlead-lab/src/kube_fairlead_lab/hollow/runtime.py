"""The containers of one hollow node. Their end is a point in time; nothing here waits."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead_lab.hollow.behaviour import behaviour

__all__ = ["Runtime", "Sandbox"]

_KILLED = 137  # 128 and SIGKILL


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The containers of one pod."""

    pod: Pod
    address: str
    started: dt.datetime
    restarts: int = 0
    asked: dt.datetime | None = None  # when it was stopped
    kill_at: dt.datetime | None = None
    ends_at: dt.datetime | None = None  # None: never

    def has_ended(self, now: dt.datetime) -> bool:
        """Return whether no container runs any more."""
        return self.ends_at is not None and self.ends_at <= now

    @property
    def exit_code(self) -> int:
        """The exit code of its containers."""
        return _KILLED if self.ends_at is not None and self.ends_at == self.kill_at else 0


class Runtime:
    """The containers of one node, by pod uid.

    A kubelet starts and stops them; so can another component while the kubelet is stopped.
    """

    def __init__(self, pod_cidr: str, *, on_change: Callable[[Pod], None] = lambda _pod: None) -> None:
        self._network = pod_cidr.partition("/")[0].rpartition(".")[0]
        self._on_change = on_change
        self._sandboxes: dict[str, Sandbox] = {}
        self._last_address = 1
        self._used: set[str] = set()

    def __iter__(self) -> Iterator[Sandbox]:
        """Yield a snapshot of all sandboxes."""
        return iter(list(self._sandboxes.values()))

    def get(self, uid: str) -> Sandbox | None:
        """Return the containers of a pod, if they were started here."""
        return self._sandboxes.get(uid)

    def start(self, pod: Pod, now: dt.datetime, *, host_address: str) -> Sandbox:
        """Start a pod's containers, again if they have ended."""
        before = self._sandboxes.get(pod.uid)
        if before is not None:
            address, restarts = before.address, before.restarts + 1
        else:
            address, restarts = host_address if pod.spec.host_network else self._new_address(), 0
        made = Sandbox(pod=pod, address=address, started=now, restarts=restarts)
        self._sandboxes[pod.uid] = made
        return made

    def adopt(self, pod: Pod, now: dt.datetime) -> Sandbox:
        """Adopt the running containers of a pod, by its status."""
        started = pod.status.start_time or now
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        made = Sandbox(pod=pod, address=pod.status.pod_ip, started=started, restarts=restarts)
        self._sandboxes[pod.uid] = made
        self._used.add(made.address)
        return made

    def see(self, pod: Pod) -> None:
        """Update a pod: its annotations may have changed its behaviour."""
        known = self._sandboxes.get(pod.uid)
        if known is not None and known.pod is not pod:
            self._sandboxes[pod.uid] = dataclasses.replace(known, pod=pod)

    def stop(self, uid: str, grace_seconds: float, now: dt.datetime) -> Sandbox | None:
        """Stop a pod's containers, and kill them after the grace period. A repeated call can only shorten it."""
        known = self._sandboxes.get(uid)
        if known is None or known.has_ended(now):
            return known
        asked = known.asked or now
        kill_at = now + dt.timedelta(seconds=grace_seconds)
        if known.kill_at is not None:
            kill_at = min(kill_at, known.kill_at)
        manner = behaviour(known.pod)
        ends = [kill_at] if manner.dies_when_killed else []
        if manner.ends_after_seconds is not None:
            ends.append(asked + dt.timedelta(seconds=manner.ends_after_seconds))
        stopped = dataclasses.replace(known, asked=asked, kill_at=kill_at, ends_at=min(ends, default=None))
        if stopped != known:
            self._sandboxes[uid] = stopped
            self._on_change(known.pod)
        return stopped

    def forget(self, uid: str) -> None:
        """Remove the sandbox of a pod."""
        gone = self._sandboxes.pop(uid, None)
        if gone is not None:
            self._used.discard(gone.address)

    def lose_power(self, now: dt.datetime) -> None:
        """End all containers at once."""
        for uid, sandbox in self._sandboxes.items():
            self._sandboxes[uid] = dataclasses.replace(sandbox, kill_at=now, ends_at=now)

    def _new_address(self) -> str:
        for _ in range(254):
            self._last_address = 2 if self._last_address >= 254 else self._last_address + 1
            address = f"{self._network}.{self._last_address}"
            if address not in self._used:
                break
        # With more pods than a /24 has addresses, some share one, which does not matter here.
        self._used.add(address)
        return address
