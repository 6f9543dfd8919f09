"""Keeping the shutdown lock when the agent that took it is killed.

logind's lock is a file descriptor: it is gone with the last process that has it open, and none can be had while a
shutdown is under way. So somebody else keeps a copy and gives it back to the next agent: the service manager, when the
agent is a systemd unit with `FileDescriptorStoreMax=1` and `NotifyAccess=main`; elsewhere a parent process (`holding`).
"""

from __future__ import annotations

import os
import socket
from typing import Final, Protocol

from kube_fairlead.base import logs
from kube_fairlead.base.environment import Environment

__all__ = ["LOCK_NAME", "LockStore", "NoLockStore", "SystemdFdStore", "find_lock_store"]

LOCK_NAME: Final = "fairlead-shutdown-lock"
"""What the lock is called where it is kept."""

_FIRST_FD: Final = 3

_log = logs.get_logger(__name__)


class LockStore(Protocol):
    """Who keeps a copy of the lock."""

    def recall(self) -> int | None:
        """The lock of an earlier process, if there is one. It is this process's own from now on; asked once."""
        ...

    def keep(self, lock: int) -> None:
        """Keep a copy."""
        ...

    def drop(self) -> None:
        """Let go of the copy."""
        ...


class NoLockStore:
    """Nobody. The lock ends with this process."""

    def recall(self) -> int | None:
        """There is none."""
        return None

    def keep(self, lock: int) -> None:
        """It is not kept."""

    def drop(self) -> None:
        """There is nothing to let go of."""


class SystemdFdStore:
    """systemd's file descriptor store, of the unit that this process is the main process of."""

    def __init__(self, environment: Environment, *, process_id: int) -> None:
        self._notify_path = environment.get("NOTIFY_SOCKET") or ""
        self._recalled = _handed_over(environment, process_id)

    def recall(self) -> int | None:
        """What the manager handed over at the start."""
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            os.set_inheritable(recalled, False)
        return recalled

    def keep(self, lock: int) -> None:
        """Send it. FDPOLL=0: else the manager drops it when logind, which has the other end, is restarted."""
        self._notify(f"FDSTORE=1\nFDNAME={LOCK_NAME}\nFDPOLL=0", [lock])

    def drop(self) -> None:
        """Remove what was sent."""
        self._notify(f"FDSTOREREMOVE=1\nFDNAME={LOCK_NAME}")

    def _notify(self, text: str, descriptors: list[int] | None = None) -> None:
        if not self._notify_path:
            return
        # A path in the abstract namespace is written with an @ for its leading zero byte.
        address = f"\0{self._notify_path[1:]}" if self._notify_path.startswith("@") else self._notify_path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(address)
                socket.send_fds(sender, [text.encode()], descriptors or [])
        except OSError as error:
            _log.error("systemd does not keep the shutdown lock: a restart would lose it", error=str(error))


def find_lock_store(environment: Environment, *, process_id: int) -> LockStore:
    """Whoever keeps locks here."""
    if environment.get("NOTIFY_SOCKET"):
        return SystemdFdStore(environment, process_id=process_id)
    return NoLockStore()


def _handed_over(environment: Environment, process_id: int) -> int | None:
    """The descriptor of our name among those that this process was started with."""
    if environment.get("LISTEN_PID") != str(process_id):
        return None
    names = (environment.get("LISTEN_FDNAMES") or "").split(":")
    found = [_FIRST_FD + index for index, name in enumerate(names) if name == LOCK_NAME]
    for surplus in found[1:]:
        os.close(surplus)
    return found[0] if found else None
