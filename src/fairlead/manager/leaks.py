"""What a run left behind: tasks, threads, sockets and open files, each with the place where it was made.

A term must end with nothing of it left: a leaked task is a second control loop, a leaked socket or file is memory that
a restart used to hide. Whatever is made while a ledger is open is entered in it, by the context that made it; so
several terms in one process are told apart, and what other parts of the process make is nobody's leak.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import os
import pathlib
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from types import FrameType
from typing import Any

from fairlead.base.clock import Clock

__all__ = ["Leak", "Ledger", "keep_ledgers", "ledger", "settled"]

_STACK_FRAMES = 8
# Closing is not always immediate: TLS says goodbye, a cancelled task takes a turn or two.
_SETTLE_SECONDS = 1.0
_SETTLE_STEP_SECONDS = 0.02
# The event loop's own pool, e.g. for name resolution, serves the whole process and ends with it.
_POOL_THREADS = "asyncio_"
_OPEN_FILES = pathlib.Path("/proc/self/fd")
_NO_FILES = ("socket:", "anon_inode:", "/dev/", "/proc/")


@dataclasses.dataclass(frozen=True, slots=True)
class Leak:
    """One thing left behind, and where it was made (innermost frame first), as far as known."""

    kind: str  # task, informer, thread, socket, file
    name: str
    made_at: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f", made at {' < '.join(self.made_at)}" if self.made_at else "")


class Ledger:
    """What was made under it and still exists. What belongs to a part belongs to the whole too.

    Sockets belong to the whole only: connections are shared, and outlive the part that happened to open them.
    """

    def __init__(self, name: str, *, whole: Ledger | None = None) -> None:
        self.name = name
        self._whole = whole
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._threads: weakref.WeakKeyDictionary[threading.Thread, tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._sockets: weakref.WeakKeyDictionary[socket.socket, tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._files_before = _open_files()

    def enter_task(self, task: asyncio.Task[Any], made_at: tuple[str, ...]) -> None:
        """A task was made."""
        self._tasks[task] = made_at
        if self._whole is not None:
            self._whole.enter_task(task, made_at)

    def enter_thread(self, thread: threading.Thread, made_at: tuple[str, ...]) -> None:
        """A thread was started."""
        self._threads[thread] = made_at
        if self._whole is not None:
            self._whole.enter_thread(thread, made_at)

    def enter_socket(self, made: socket.socket, made_at: tuple[str, ...]) -> None:
        """A socket was made."""
        if self._whole is not None:
            self._whole.enter_socket(made, made_at)
        else:
            self._sockets[made] = made_at

    def running_tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks made here that have not ended, without the one that asks."""
        me = asyncio.current_task()
        return [task for task in list(self._tasks) if task is not me and not task.done()]

    def still_running(self) -> list[Leak]:
        """Tasks and threads: what could still act."""
        leaks = [
            Leak("informer" if task.get_name().startswith("informer/") else "task", task.get_name(), self._tasks[task])
            for task in self.running_tasks()
        ]
        leaks += [
            Leak("thread", thread.name, where)
            for thread, where in list(self._threads.items())
            if thread.is_alive() and not thread.name.startswith(_POOL_THREADS)
        ]
        return leaks

    def still_open(self) -> list[Leak]:
        """Sockets: what still costs."""
        return [
            Leak("socket", _describe(made), where) for made, where in list(self._sockets.items()) if made.fileno() != -1
        ]

    def opened_files(self) -> list[Leak]:
        """Files that the whole process has opened meanwhile and not closed."""
        return [Leak("file", target) for _, target in sorted(_open_files() - self._files_before)]


_current: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("ledger", default=None)


@contextlib.contextmanager
def ledger(name: str, *, whole: Ledger | None = None) -> Iterator[Ledger]:
    """Enter whatever is made in this block, and in tasks and threads that it starts. See `keep_ledgers`."""
    opened = Ledger(name, whole=whole)
    token = _current.set(opened)
    try:
        yield opened
    finally:
        _current.reset(token)


async def settled(find: Callable[[], list[Leak]], clock: Clock) -> list[Leak]:
    """What is left when everything had a moment to end."""
    limit = clock.monotonic() + _SETTLE_SECONDS
    while (left := find()) and clock.monotonic() < limit:
        await clock.sleep(_SETTLE_STEP_SECONDS)
    return left


@contextlib.contextmanager
def keep_ledgers(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have this event loop's tasks, and the process's sockets and threads, entered where a ledger is open."""
    _listen_for_sockets()
    with _entered_threads(), _entered_tasks(loop):
        yield


@contextlib.contextmanager
def _entered_tasks(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    before = loop.get_task_factory()
    make = before or _plain_task

    def entered(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
    ) -> asyncio.Future[Any]:
        task = make(loop, work, **options)
        context: contextvars.Context | None = options.get("context")
        opened = _current.get() if context is None else context.get(_current)
        if opened is not None and isinstance(task, asyncio.Task):
            opened.enter_task(task, _stack())
        return task

    loop.set_task_factory(entered)
    try:
        yield
    finally:
        loop.set_task_factory(before)


def _plain_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(work, loop=loop, **options)


@contextlib.contextmanager
def _entered_threads() -> Iterator[None]:
    # Python offers no hook for this. The method is put back at the end.
    start = threading.Thread.start

    def entered(thread: threading.Thread) -> None:
        opened = _current.get()
        if opened is not None:
            opened.enter_thread(thread, _stack())
        start(thread)

    threading.Thread.start = entered  # type: ignore[assignment,method-assign]  # the hook that Python lacks
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]  # as it was


@functools.cache
def _listen_for_sockets() -> None:
    # Python tells its auditors of every socket when it is made. An auditor stays for good, so there is one, and it
    # does nothing where no ledger is open.
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.__new__":
        opened = _current.get()
        if opened is not None and isinstance(arguments[0], socket.socket):
            opened.enter_socket(arguments[0], _stack())


def _stack() -> tuple[str, ...]:
    # As text: a frame object would keep every local variable of its caller alive.
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the documented cheap way to see the caller
    places: list[str] = []
    while frame is not None and len(places) < _STACK_FRAMES:
        if frame.f_globals.get("__name__") not in {__name__, "asyncio.base_events", "asyncio.taskgroups"}:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(places)


def _describe(made: socket.socket) -> str:
    try:
        return f"to {made.getpeername()}"
    except OSError:
        return f"number {made.fileno()}"


def _open_files() -> frozenset[tuple[str, str]]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in _OPEN_FILES.iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(entry)  # noqa: PTH115 - a Path would make a name of what may be none
                if not target.startswith(_NO_FILES):
                    found.add((entry.name, target))
    return frozenset(found)
