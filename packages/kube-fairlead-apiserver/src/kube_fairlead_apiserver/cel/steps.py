"""Steps: the closures that the planner builds.

A step runs on a frame, a plain list. Slot zero holds the remaining cost; the other slots hold variables, first the
caller's, then those of loops. Costs that do not depend on data are added up during planning, and charged where it is
decided that a step runs (a branch, a loop). So straight code has no accounting overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kube_fairlead_apiserver.cel import errors, nodes

__all__ = ["Frame", "Planner", "Run", "Step", "charge", "constant", "no_such_overload"]

Frame = list[Any]
Run = Callable[[Frame], Any]


class Step:
    """A planned node: its closure, and its fixed cost for each run."""

    __slots__ = ("cost", "is_constant", "run", "slot", "value")

    def __init__(self, run: Run, cost: int, *, slot: int | None = None) -> None:
        self.run = run
        self.cost = cost
        self.slot = slot  # set when the step only reads this slot
        self.is_constant = False
        self.value: Any = None


def constant(value: Any, cost: int = 0) -> Step:
    """Return a step with a known value."""
    step = Step(lambda _frame: value, cost)
    step.is_constant = True
    step.value = value
    return step


class Planner(Protocol):
    """What the modules that plan one kind of node need from the planner."""

    def step(self, node: nodes.Expr) -> Step:
        """Plan a child node."""

    def bind(self, name: str) -> int:
        """Give a local name a slot; it hides outer ones until released."""

    def release(self, name: str) -> None:
        """Release a local name."""


def charge(frame: Frame, cost: int) -> None:
    """Spend some of the budget."""
    frame[0] -= cost
    if frame[0] < 0:
        raise errors.CostExceeded


def no_such_overload() -> errors.EvaluationError:
    """Build the error for values that match no overload."""
    return errors.EvaluationError("no such overload")
