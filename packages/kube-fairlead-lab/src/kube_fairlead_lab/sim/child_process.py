"""Runs one seed in a child process.

Killed simulated processes leave unfinished coroutines behind. Destroying them takes a tenth of the whole run; a child
process that exits does not have to. The child also starts from the same state, whatever was played before, and it can
be killed at any moment.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.runner import Outcome, run
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["interrupts_blocked", "kill_children", "run_in_child", "warm_up"]

_CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_WARMING = Scenario(nodes=2, managers=1, chaos_minutes=0.5)

_left: list[object] = []
_children: list[BaseProcess] = []


@functools.cache
def warm_up() -> None:
    """Load and compile schemas, rules and patterns once, so that no child has to."""
    if _CAN_FORK:
        run(0, _WARMING)


def run_in_child(
    seed: int, scenario: Scenario, actions: Sequence[Action] | None = None, *, with_history: bool = False
) -> Outcome:
    """As `run`, in a child process, so that an interrupt reaches the caller and not the simulated code.

    A child that exits without an outcome is a failure; its standard error has the reason.
    """
    if not _CAN_FORK or threading.active_count() > 1:  # a forked child has only one thread
        return run(seed, scenario, actions, with_history=with_history)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    work = functools.partial(_play, seed, scenario, actions, theirs, with_history=with_history)
    child = context.Process(target=work, name=f"seed {seed}")
    with interrupts_blocked():
        child.start()
    _children.append(child)
    theirs.close()
    try:
        return ours.recv()  # type: ignore[no-any-return]  # what `_play` sends
    except EOFError:
        return Outcome.of_nothing(seed)
    except BaseException:
        child.kill()  # its result is not needed any more
        raise
    finally:
        ours.close()
        child.join()
        _children.remove(child)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Child processes that start meanwhile do not receive Ctrl-C: the parent decides when they end."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_children() -> None:
    """Kill the child processes of this process."""
    for child in _children:
        child.kill()


def _play(
    seed: int, scenario: Scenario, actions: Sequence[Action] | None, answer: Connection, *, with_history: bool
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the parent's handler
    answer.send(run(seed, scenario, actions, with_history=with_history, leftovers=_left))
