"""What a run leaked: tasks, threads, sockets and open files, each with the place where it was created.

A term must end with nothing of it left: a leaked task is a second control loop, a leaked socket or file is memory that
a restart used to hide. Whatever is made while a ledger is open is entered in it, by the context that made it; so
several terms in one process are distinguished, and what other parts of the process create is no leak.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import itertools
import os
import pathlib
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from types import FrameType
from typing import Any

from kube_fairlead.base.clock import Clock

__all__ = ["Leak", "Ledger", "keep_ledgers", "ledger", "settled"]

_STACK_FRAMES = 8
# Closing is not always immediate: TLS says goodbye, a cancelled task takes a turn or two.
_SETTLE_SECONDS = 1.0
# The next leader waits for this: looked at often in the beginning, when it is nearly always over at once.
_SETTLE_STEPS_SECONDS = (0.001, 0.002, 0.004, 0.008)
_SETTLE_STEP_SECONDS = 0.02
# The event loop's own pool, e.g. for name resolution, serves the whole process and ends with it.
_POOL_THREADS = "asyncio_"
_OPEN_FILES = pathlib.Path("/proc/self/fd")
_DEVICES = ("/dev/", "/proc/")
_NAMELESS = ("pipe:", "anon_inode:")


@dataclasses.dataclass(frozen=True, slots=True)
class Leak:
    """One leak, and where it was created (innermost frame first), as far as known."""

    kind: str  # task, informer, thread, socket, file, descriptor
    name: str
    made_at: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f", made at {' < '.join(self.made_at)}" if self.made_at else "")


class Ledger:
    """What was made under it and still exists. What belongs to a part belongs to the whole too.

    Sockets and files belong to the whole only: connections are shared, and outlive the part that happened to open
    them. Pipes and the like raise no audit event, so they are counted before and after; in a process that has several
    terms at once their owner is not known, and they are left out.
    """

    def __init__(self, name: str, *, whole: Ledger | None = None) -> None:
        self.name = name
        self._whole = whole
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._threads: weakref.WeakKeyDictionary[threading.Thread, tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._sockets: weakref.WeakKeyDictionary[socket.socket, tuple[str, ...]] = weakref.WeakKeyDictionary()
        self._files: dict[str, tuple[str, ...]] = {}
        self._descriptors_before = _descriptors() if whole is None else frozenset()
        self.was_alone = True

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

    def enter_file(self, path: str, made_at: tuple[str, ...]) -> None:
        """A file is being opened."""
        if self._whole is not None:
            self._whole.enter_file(path, made_at)
        else:
            self._files[path] = made_at

    def running_tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks made here that have not ended, without the current one."""
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
        """Sockets, files and other descriptors: what still costs. A part has none of its own."""
        if self._whole is not None:
            return []
        leaks = [
            Leak("socket", _describe(made), where) for made, where in list(self._sockets.items()) if made.fileno() != -1
        ]
        opened = {os.path.realpath(path): where for path, where in self._files.items()}
        for _, target in sorted(_descriptors() - self._descriptors_before):
            if target in opened:
                leaks.append(Leak("file", target, opened[target]))
            elif self.was_alone and target.startswith(_NAMELESS):
                leaks.append(Leak("descriptor", target))
        return leaks


_current: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("ledger", default=None)
_open_wholes: set[Ledger] = set()


@contextlib.contextmanager
def ledger(name: str, *, whole: Ledger | None = None) -> Iterator[Ledger]:
    """Enter whatever is made in this block, and in tasks and threads that it starts. See `keep_ledgers`."""
    opened = Ledger(name, whole=whole)
    token = _current.set(opened)
    if whole is None:
        _open_wholes.add(opened)
        if len(_open_wholes) > 1:
            for one in _open_wholes:
                one.was_alone = False
    try:
        yield opened
    finally:
        _open_wholes.discard(opened)
        _current.reset(token)


async def settled(find: Callable[[], list[Leak]], clock: Clock) -> list[Leak]:
    """What is left when everything had a moment to end."""
    limit = clock.monotonic() + _SETTLE_SECONDS
    steps = itertools.chain(_SETTLE_STEPS_SECONDS, itertools.repeat(_SETTLE_STEP_SECONDS))
    while (left := find()) and clock.monotonic() < limit:
        await clock.sleep(next(steps))
    return left


@contextlib.contextmanager
def keep_ledgers(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have this event loop's tasks, and the process's sockets, files and threads, entered where a ledger is open."""
    _listen()
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
def _listen() -> None:
    # Python calls audit hooks for every new socket and every opened file. An auditor stays for good,
    # so there is one, and it does nothing where no ledger is open.
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"socket.__new__", "open"} or (opened := _current.get()) is None:
        return
    if event == "open":
        path = arguments[0]
        if isinstance(path, str | bytes):  # else it is a descriptor that was opened before
            opened.enter_file(os.fsdecode(path), _stack())
    elif isinstance(arguments[0], socket.socket):
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


def _descriptors() -> frozenset[tuple[str, str]]:
    """Every open descriptor of the process, and what it is; none where the system does not list them."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in _OPEN_FILES.iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(entry)  # noqa: PTH115 - a Path would make a name of what may be none
                if not target.startswith(_DEVICES):
                    found.add((entry.name, target))
    return frozenset(found)
