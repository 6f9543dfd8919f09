"""Keeping the lock where no systemd does: a parent that holds a copy and starts its agent again when that is killed.

It speaks systemd's own protocol (NOTIFY_SOCKET, FDSTORE=1, LISTEN_FDS), so that the agent sees no difference. In a
container this matters twice: while the machine goes down the kubelet is stopped, and nobody else would start the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kube_fairlead.agent.shutdown.lock_store import LOCK_NAME
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["LockSupervisor"]

_FIRST_FD: Final = 3
_NOT_FOUND: Final = 127
_AGAIN_SECONDS: Final = 0.1
_MESSAGE_BYTES: Final = 4096
_DESCRIPTORS: Final = 4

_log = logs.get_logger(__name__)


class LockSupervisor:
    """Runs one program at a time. It ends with its program, unless that leaves a lock behind and did not end well."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], clock: Clock, *, socket_path: Path
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._clock = clock
        self._path = socket_path
        self._lock: int | None = None

    async def run(self) -> int:
        """Until the program ends by itself; its exit code. Cancelled, it asks the program to end, and waits for it."""
        with self._listening() as notified:
            while True:
                code = await self._wait(self._start())
                self._take(notified)  # what it said last
                if self._lock is None or code == 0:
                    return code
                _log.warning("the agent is started again, with its lock", exit_code=code)
                await self._clock.sleep(_AGAIN_SECONDS)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # of a holder that was killed
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.setblocking(False)
            notified.bind(str(self._path))
            self._path.chmod(0o600)
            loop.add_reader(notified, self._take, notified)
            try:
                yield notified
            finally:
                loop.remove_reader(notified)
                self._path.unlink(missing_ok=True)
                self._let_go()

    def _start(self) -> int:
        """The program as a child, with the lock as systemd would hand it over; its process id."""
        child = os.fork()
        if child:
            return child
        try:
            environment = {**self._environment, "NOTIFY_SOCKET": str(self._path)}
            if self._lock is not None:
                os.dup2(self._lock, _FIRST_FD)
                os.set_inheritable(_FIRST_FD, True)
                environment |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": LOCK_NAME}
            os.execvpe(self._command[0], self._command, environment)  # noqa: S606 - no shell is wanted
        finally:
            os._exit(_NOT_FOUND)

    async def _wait(self, child: int) -> int:
        ended = asyncio.Event()
        loop, handle = asyncio.get_running_loop(), os.pidfd_open(child)
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            os.kill(child, signal.SIGTERM)
            await ended.wait()
            raise
        finally:
            loop.remove_reader(handle)
            os.close(handle)
            _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - it has ended
        return os.waitstatus_to_exitcode(status)

    def _take(self, notified: socket.socket) -> None:
        """Hear everything that was said."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(notified, _MESSAGE_BYTES, _DESCRIPTORS)
            except BlockingIOError:
                return
            said = data.decode(errors="replace").splitlines()
            ours = f"FDNAME={LOCK_NAME}" in said
            if ours and ("FDSTOREREMOVE=1" in said or ("FDSTORE=1" in said and descriptors)):
                self._let_go()
            if ours and "FDSTORE=1" in said and descriptors:
                self._lock = descriptors.pop(0)
                os.set_inheritable(self._lock, False)  # else the next agent had it twice, and could not let it go
            for surplus in descriptors:
                os.close(surplus)

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
