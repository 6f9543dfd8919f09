"""One seed in a child of its own.

What the dead of a simulated world leave behind is a heap of half-run coroutines. To take it apart costs a tenth of the
whole run; a child that ends needs not. It also begins with exactly what its parent was, whatever was played before.
"""

from __future__ import annotations

import functools
import multiprocessing
from multiprocessing.connection import Connection

from fairlead.sim.running import Outcome, run
from fairlead.sim.scenario import Scenario

__all__ = ["run_apart", "warm_up"]

_CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_WARMING = Scenario(nodes=2, managers=1, chaos_minutes=0.5)

_left: list[object] = []


@functools.cache
def warm_up() -> None:
    """Load and compile once what every child would have to: schemas, rules, patterns."""
    if _CAN_FORK:
        run(0, _WARMING)


def run_apart(seed: int, scenario: Scenario) -> Outcome:
    """As `run`. Only a failure comes with its history, which is long.

    A child that ends without an outcome is a failure, too; what it died of is on its standard error.
    """
    if not _CAN_FORK:
        return _brief(run(seed, scenario))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_play, args=(seed, scenario, theirs), name=f"seed {seed}")
    child.start()
    theirs.close()
    try:
        return ours.recv()  # type: ignore[no-any-return]  # what `_play` sends
    except EOFError:
        return Outcome.of_nothing(seed)
    finally:
        ours.close()
        child.join()


def _play(seed: int, scenario: Scenario, answer: Connection) -> None:
    answer.send(_brief(run(seed, scenario, graveyard=_left)))


def _brief(outcome: Outcome) -> Outcome:
    return outcome if outcome.violation is not None else outcome.without_history()
