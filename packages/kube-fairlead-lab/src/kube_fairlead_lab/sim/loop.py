"""An event loop on virtual time that runs several simulated processes in an order that a seed decides.

1. Time moves only when nothing can run, and then to the next timer. An idle simulated hour costs nothing.
2. The seed decides which process runs next. Within one process callbacks run in the order in which they became ready,
   as asyncio promises. So the same seed gives the same interleaving.
3. A killed process never runs another line, not even `finally`. What it leaves is kept until the simulation ends.
4. A paused process runs nothing. Its timers fire when it continues, as after SIGSTOP and SIGCONT.

A callback belongs to the process in whose context it was scheduled; a task inherits the process that started it.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, TypeVarTuple, Unpack

from kube_fairlead.base.randomness import Randomness

__all__ = ["LoopStarved", "Process", "SimLoop", "current_process"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_TASKS_BETWEEN_TIDYING = 64
_CANCELLED_BETWEEN_TIDYING = 256
# So many callbacks without a step in time mean that a process spins.
_SPINNING = 50_000
_CALLBACKS_AT_ONCE = 256


class LoopStarved(RuntimeError):
    """No process can run, and no timer is set."""


class Process:
    """One simulated process, or the harness. Everything that it runs carries it in its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.steps_left: int | None = None  # see `SimLoop.call_after_steps`
        self.on_last_step: Callable[[], None] = lambda: None
        self.woke_at = float("-inf")
        self.ready: collections.deque[asyncio.Handle] = collections.deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.task_factory: Any = None
        self.context = contextvars.copy_context()
        self.context.run(_current.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}>"


_current: contextvars.ContextVar[Process] = contextvars.ContextVar("process")


def current_process() -> Process:
    """Return the process that runs now."""
    return _current.get()


class SimLoop(asyncio.BaseEventLoop):
    """The event loop; see the module."""

    def __init__(self, randomness: Randomness) -> None:
        super().__init__()
        self._randomness = randomness
        self._now = 0.0
        self._stopping = False  # BaseEventLoop's own, which its `stop` sets
        self._numbers = itertools.count()
        self.task_numbers = itertools.count()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, contextvars.Context]] = []
        self._cancelled_timers = 0
        self._runnable: list[Process] = []
        self._ran_since_time_moved = 0
        self.harness = Process("world")
        self.callbacks_run = 0

    # ---- control of processes

    def start(self, process: Process, work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Run a coroutine in a process."""
        return self.create_task(work, name=name, context=process.context.copy())

    def kill(self, process: Process) -> None:
        """Kill a process as SIGKILL does."""
        process.is_alive = False
        for task in process.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - a killed task is no error here
        if process in self._runnable:
            self._runnable.remove(process)

    def call_after_steps(self, process: Process, steps: int, on_last_step: Callable[[], None]) -> None:
        """Call back after this number of steps of a process, also between two awaits that take no time."""
        process.steps_left = steps
        process.on_last_step = on_last_step

    def pause(self, process: Process) -> None:
        """Pause a process as SIGSTOP does."""
        process.is_paused = True
        if process in self._runnable:
            self._runnable.remove(process)

    def resume(self, process: Process) -> None:
        """Continue a process as SIGCONT does."""
        process.is_paused = False
        process.woke_at = self._now
        if process.ready and process.is_alive:
            self._runnable.append(process)

    # ---- the interface of an asyncio loop

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run a callback when it is its process's turn."""
        own = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, own)
        self._make_ready(handle, own)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there are no threads. asyncio closes abandoned async generators by it."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after some virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a virtual time."""
        own = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, own)
        heapq.heappush(self._timers, (when, next(self._numbers), handle, own))
        return handle

    def create_task(
        self,
        work: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[_T]:
        """Start a task and add it to its process."""
        process = _current.get(self.harness) if context is None else context.get(_current, self.harness)
        make = process.task_factory or _numbered_task
        task: asyncio.Task[_T] = make(self, work, **({} if context is None else {"context": context}))
        if name is not None:
            task.set_name(str(name))
        process.tasks.append(task)
        if len(process.tasks) % _TASKS_BETWEEN_TIDYING == 0:
            process.tasks = [kept for kept in process.tasks if not kept.done()]
        return task

    def set_task_factory(self, factory: Any) -> None:
        """Set the factory of the calling process; each process has its own."""
        _current.get(self.harness).task_factory = factory

    def get_task_factory(self) -> Any:
        """Return the factory of the calling process."""
        return _current.get(self.harness).task_factory or _numbered_task

    def _make_ready(self, handle: asyncio.Handle, context: contextvars.Context) -> None:
        process = context.get(_current, self.harness)
        if not process.is_alive:
            return
        if not process.ready and not process.is_paused:
            self._runnable.append(process)
        process.ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # Most timers are timeouts of requests that are answered: without this they would fill the heap.
        del handle
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED_BETWEEN_TIDYING and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Run callbacks and move time until the loop is stopped, up to a few hundred callbacks."""
        runnable, draw = self._runnable, self._randomness.random
        for _ in range(_CALLBACKS_AT_ONCE):
            if self._stopping:
                return
            if not runnable:
                self._move_time()
                continue
            at = int(draw() * len(runnable)) if len(runnable) > 1 else 0
            process = runnable[at]
            handle = process.ready.popleft()
            if not process.ready:
                runnable[at] = runnable[-1]
                runnable.pop()
            if not handle.cancelled():
                self.callbacks_run += 1
                self._ran_since_time_moved += 1
                if self._ran_since_time_moved > _SPINNING:
                    raise LoopStarved(f"{process.name} spins")
                handle._run()  # noqa: SLF001 - an event loop runs its handles
                if process.steps_left is not None:
                    self._count_down(process)

    def _count_down(self, process: Process) -> None:
        process.steps_left = (process.steps_left or 0) - 1
        if process.steps_left <= 0:
            process.steps_left = None
            self.harness.context.copy().run(process.on_last_step)

    def _move_time(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise LoopStarved("nothing can run and no timer is set")
        when = self._timers[0][0]
        self._now = max(self._now, when)
        self._ran_since_time_moved = 0
        while self._timers and self._timers[0][0] <= self._now:
            _, _, handle, context = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._make_ready(handle, context)

    def _process_events(self, event_list: object) -> None:
        raise NotImplementedError  # there is no selector

    def _write_to_self(self) -> None:
        """Nothing to wake: the loop never sleeps."""


class _NumberedTask(asyncio.Task[Any]):
    """A task with a number as its hash: asyncio cancels sets of tasks, and their order must not depend on addresses."""

    def __init__(self, work: Any, *, loop: asyncio.AbstractEventLoop, number: int, **options: Any) -> None:
        self._number = number  # set before the task can be put into a set
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


def _numbered_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    assert isinstance(loop, SimLoop)  # noqa: S101 - this is the factory of SimLoop
    return _NumberedTask(work, loop=loop, number=next(loop.task_numbers), **options)
