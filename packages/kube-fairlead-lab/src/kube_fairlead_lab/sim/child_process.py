"""One seed in a child of its own.

What the dead of a simulated world leave behind is a heap of half-run coroutines. To take it apart costs a tenth of the
whole run; a child that ends needs not. It also begins with exactly what its parent was, whatever was played before, and
it can be left in the middle.
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

from kube_fairlead_lab.sim.plan import Action
from kube_fairlead_lab.sim.runner import Outcome, run
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["interrupts_blocked", "kill_children", "run_in_child", "warm_up"]

_CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_WARMING = Scenario(nodes=2, managers=1, chaos_minutes=0.5)

_left: list[object] = []
_children: list[BaseProcess] = []


@functools.cache
def warm_up() -> None:
    """Load and compile once what every child would have to: schemas, rules, patterns."""
    if _CAN_FORK:
        run(0, _WARMING)


def run_in_child(
    seed: int, scenario: Scenario, actions: Sequence[Action] | None = None, *, with_history: bool = False
) -> Outcome:
    """As `run`. Who interrupts it can rely on that: within a world an interrupt may be taken for one of its own.

    A child that ends without an outcome is a failure, too; what it died of is on its standard error.
    """
    if not _CAN_FORK or threading.active_count() > 1:  # which a child would lack
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
        child.kill()  # nobody waits for it any more
        raise
    finally:
        ours.close()
        child.join()
        _children.remove(child)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Whoever is born meanwhile never hears of Ctrl-C: it is their parent who decides what becomes of them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_children() -> None:
    """Let nobody play on whom this process has started."""
    for child in _children:
        child.kill()


def _play(
    seed: int, scenario: Scenario, actions: Sequence[Action] | None, answer: Connection, *, with_history: bool
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever its parent makes of it
    answer.send(run(seed, scenario, actions, with_history=with_history, leftovers=_left))
