"""Named, owned asyncio tasks. Nothing else in the code base starts one.

`TaskScope` is for work that lives as long as a block. `TaskSet` is for an object that is started and closed by calls.
Both name their tasks `<owner>/<name>`, and both leave no task behind: `live_tasks()` lists what still runs, and where
it was started.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import sys
import weakref
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar

__all__ = ["LiveTask", "OnExit", "TaskScope", "TaskSet", "cancel_and_wait", "live_tasks"]

_T = TypeVar("_T")

# Enough to see who started it; every frame costs a little for every task.
_STACK_FRAMES = 8


class OnExit(enum.Enum):
    """What a scope does with its tasks when its block ends normally."""

    WAIT = "wait"  # they are the work: wait until they have finished
    CANCEL = "cancel"  # they serve the block: cancel them, then wait until they are gone


class LiveTask(NamedTuple):
    """A task that has not ended, and where it was started (innermost frame first)."""

    owner: str
    name: str
    started_at: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}, started at {' < '.join(self.started_at)}"


_alive: weakref.WeakKeyDictionary[asyncio.Task[Any], LiveTask] = weakref.WeakKeyDictionary()


def live_tasks(owner: str | None = None) -> tuple[LiveTask, ...]:
    """The tasks of this event loop that were started here and still run: all, or those of one owner.

    An owner `manager` also owns what belongs to `manager/event-gc`.
    """
    loop = asyncio.get_running_loop()
    return tuple(
        started
        for task, started in list(_alive.items())
        if task.get_loop() is loop
        and not task.done()
        and (owner is None or f"{started.owner}/".startswith(f"{owner}/"))
    )


class TaskScope:
    """A block that owns tasks: none outlives it.

    It is an `asyncio.TaskGroup` that insists on names. A task that fails cancels the block and its siblings, and the
    failures come out of the block as an ExceptionGroup. An error of the block itself cancels the tasks and comes out
    as it is. Cancelling the block cancels the tasks.
    """

    def __init__(self, owner: str, *, on_exit: OnExit = OnExit.WAIT) -> None:
        self.owner = owner
        self._on_exit = on_exit
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._on_exit is OnExit.CANCEL:
            self.cancel()
        try:
            await self._group.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as failures:
            # The block's own error comes out as itself when no task failed with it.
            if len(failures.exceptions) != 1 or failures.exceptions[0] is not error:
                raise

    def start(self, work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Run it as a task of this scope."""
        task = self._group.create_task(work, name=f"{self.owner}/{name}")
        _remember(task, self.owner, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Ask every task of this scope to stop. The block's end waits for them."""
        for task in tuple(self._tasks):
            task.cancel()


class TaskSet:
    """The tasks of an object that is started and closed by calls rather than by a block.

    A failure is never lost: it is handed to `on_failure` when it happens, or, without one, raised by `close`.
    """

    def __init__(self, owner: str, *, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self.owner = owner
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Run it as a task of this set."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self.owner} is closed and cannot start {name}")
        task = asyncio.get_running_loop().create_task(work, name=f"{self.owner}/{name}")
        _remember(task, self.owner, name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel what runs and wait until it is gone; start nothing any more. May be called again.

        Raises:
            ExceptionGroup: tasks failed and there is no failure handler.
        """
        self._closed = True
        try:
            await _cancel_until_done(set(self._tasks))
        finally:
            failures, self._failures = self._failures, []
        if failures:
            raise BaseExceptionGroup(f"tasks of {self.owner} failed", failures)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if self._on_failure is None:
            self._failures.append(failure)
        else:
            self._on_failure(failure)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until every one has ended.

    If the caller is cancelled meanwhile, the cancellation is raised at once; the tasks stay cancelled.

    Raises:
        ExceptionGroup: some ended with an error of their own.
    """
    if asyncio.current_task() in tasks:
        raise ValueError("a task cannot cancel itself and wait for that")
    await _cancel_until_done(set(tasks))
    failures = [failure for task in tasks if not task.cancelled() and (failure := task.exception()) is not None]
    if failures:
        raise BaseExceptionGroup("cancelled tasks failed", failures)


async def _cancel_until_done(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
        # Done callbacks are scheduled, not called, when a task ends; let them run first.
        await asyncio.sleep(0)


def _remember(task: asyncio.Task[Any], owner: str, name: str) -> None:
    # The frames are kept as text: a frame object would keep every local variable of its caller alive.
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the documented cheap way to see the caller
    places: list[str] = []
    while frame is not None and len(places) < _STACK_FRAMES:
        if frame.f_globals.get("__name__") == "asyncio.events":
            break  # from here on it is the event loop's own machinery
        places.append(_place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    _alive[task] = LiveTask(owner=owner, name=name, started_at=tuple(places))


@functools.lru_cache(1_000)
def _place(file: str, line: int, function: str) -> str:
    """Tasks are started at few places: a thousand of them share these texts."""
    return f"{file}:{line} {function}"
