"""Store the lock where systemd does not: a parent process that keeps a copy and restarts a killed agent.

It implements systemd's protocol (NOTIFY_SOCKET, FDSTORE=1, LISTEN_FDS), so the agent sees no difference. In a container
it also restarts the agent during a shutdown, when the kubelet, which restarts containers, is stopped.
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
    """Runs one program. It ends with the program, unless the program fails and leaves a lock in the store."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], clock: Clock, *, socket_path: Path
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._clock = clock
        self._path = socket_path
        self._lock: int | None = None

    async def run(self) -> int:
        """Run the program and return its exit code. When cancelled, send SIGTERM and wait for the program."""
        with self._listening() as notified:
            while True:
                code = await self._wait(self._start())
                self._receive(notified)  # the last messages
                if self._lock is None or code == 0:
                    return code
                _log.warning("restarting the agent with its shutdown lock", exit_code=code)
                await self._clock.sleep(_AGAIN_SECONDS)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # of a supervisor that was killed
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.setblocking(False)
            notified.bind(str(self._path))
            self._path.chmod(0o600)
            loop.add_reader(notified, self._receive, notified)
            try:
                yield notified
            finally:
                loop.remove_reader(notified)
                self._path.unlink(missing_ok=True)
                self._release()

    def _start(self) -> int:
        """Start the program as a child, pass the lock as systemd does, and return its process id."""
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

    def _receive(self, notified: socket.socket) -> None:
        """Handle all pending messages of the program."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(notified, _MESSAGE_BYTES, _DESCRIPTORS)
            except BlockingIOError:
                return
            lines = data.decode(errors="replace").splitlines()
            ours = f"FDNAME={LOCK_NAME}" in lines
            if ours and ("FDSTOREREMOVE=1" in lines or ("FDSTORE=1" in lines and descriptors)):
                self._release()
            if ours and "FDSTORE=1" in lines and descriptors:
                self._lock = descriptors.pop(0)
                os.set_inheritable(self._lock, False)  # else the next agent had a second copy and could not release it
            for surplus in descriptors:
                os.close(surplus)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
