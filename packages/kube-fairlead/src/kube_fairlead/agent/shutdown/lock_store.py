"""Store the shutdown lock outside the agent's process, so that it survives when the agent is killed.

logind's lock is a file descriptor: logind releases it when the last process closes it, and grants none while a shutdown
is in progress. Another process therefore keeps a copy and passes it to the next agent: systemd, when the agent is a
unit with `FileDescriptorStoreMax=1` and `NotifyAccess=main`; otherwise a parent process (`lock_supervisor`).
"""

from __future__ import annotations

import os
import socket
from typing import Final, Protocol

from kube_fairlead.base import logs
from kube_fairlead.base.environment import Environment

__all__ = ["LOCK_NAME", "LockStore", "NoLockStore", "SystemdFdStore", "find_lock_store"]

LOCK_NAME: Final = "fairlead-shutdown-lock"
"""The name of the lock in the store."""

_FIRST_FD: Final = 3

_log = logs.get_logger(__name__)


class LockStore(Protocol):
    """Keeps a copy of the lock."""

    def take(self) -> int | None:
        """Return the lock of an earlier process, once. The caller owns it from then on."""
        ...

    def store(self, lock: int) -> None:
        """Store a copy."""
        ...

    def remove(self) -> None:
        """Release the copy."""
        ...


class NoLockStore:
    """No store. The lock is released with this process."""

    def take(self) -> int | None:
        """Return nothing."""
        return None

    def store(self, lock: int) -> None:
        """Store nothing."""

    def remove(self) -> None:
        """Release nothing."""


class SystemdFdStore:
    """systemd's file descriptor store of the unit whose main process this is."""

    def __init__(self, environment: Environment, *, process_id: int) -> None:
        self._notify_path = environment.get("NOTIFY_SOCKET") or ""
        self._recalled = _handed_over(environment, process_id)

    def take(self) -> int | None:
        """Return the lock that systemd passed at the start."""
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            os.set_inheritable(recalled, False)
        return recalled

    def store(self, lock: int) -> None:
        """Send it. With FDPOLL=0 systemd keeps it when logind, which has the other end, restarts."""
        self._notify(f"FDSTORE=1\nFDNAME={LOCK_NAME}\nFDPOLL=0", [lock])

    def remove(self) -> None:
        """Remove the lock from the store."""
        self._notify(f"FDSTOREREMOVE=1\nFDNAME={LOCK_NAME}")

    def _notify(self, text: str, descriptors: list[int] | None = None) -> None:
        if not self._notify_path:
            return
        # In an abstract path, @ stands for the leading zero byte.
        address = f"\0{self._notify_path[1:]}" if self._notify_path.startswith("@") else self._notify_path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(address)
                socket.send_fds(sender, [text.encode()], descriptors or [])
        except OSError as error:
            _log.error("systemd does not store the shutdown lock; a restart would lose it", error=str(error))


def find_lock_store(environment: Environment, *, process_id: int) -> LockStore:
    """Return the store of this system."""
    if environment.get("NOTIFY_SOCKET"):
        return SystemdFdStore(environment, process_id=process_id)
    return NoLockStore()


def _handed_over(environment: Environment, process_id: int) -> int | None:
    """Return the descriptor with the lock's name among those passed to this process."""
    if environment.get("LISTEN_PID") != str(process_id):
        return None
    names = (environment.get("LISTEN_FDNAMES") or "").split(":")
    found = [_FIRST_FD + index for index, name in enumerate(names) if name == LOCK_NAME]
    for surplus in found[1:]:
        os.close(surplus)
    return found[0] if found else None
