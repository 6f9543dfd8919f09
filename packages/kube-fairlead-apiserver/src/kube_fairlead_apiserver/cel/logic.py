"""Plans ``&&``, ``||``, ``!`` and ``?:``.

For ``&&`` and ``||`` the order does not matter: a term that decides the result hides errors in the others.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/interpretable.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.cel import equality, errors, nodes, steps, types
from kube_fairlead_apiserver.cel.steps import Frame, Planner, Run, Step

__all__ = ["as_dynamic", "conditional", "conjunction", "disjunction", "negation"]

_Term = tuple[Run, int]


def conjunction(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a && b && ...``: false if any term is."""
    return _chain(planner, node, deciding=False)


def disjunction(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a || b || ...``: true if any term is."""
    return _chain(planner, node, deciding=True)


def _chain(planner: Planner, node: nodes.Call, *, deciding: bool) -> Step:
    planned = [planner.step(term) for term in node.args]
    rest = [(step.run, step.cost) for step in planned[1:]]
    first = planned[0].run
    pair = len(rest) == 1
    run = _pair(first, *rest[0], deciding=deciding) if pair else _many([(first, 0), *rest], deciding=deciding)
    return Step(run, planned[0].cost)


def _pair(left: Run, right: Run, right_cost: int, *, deciding: bool) -> Run:
    other = not deciding

    def run(frame: Frame) -> bool:
        failure: str | None = None
        try:
            value: object = left(frame)
        except errors.EvaluationError as error:
            failure = str(error)
        else:
            if value is deciding:
                return deciding
            if value is not other:
                failure = "no such overload"
        frame[0] -= right_cost
        if failure is not None:
            return _absorbing(right, frame, failure, deciding=deciding)
        value = right(frame)
        if value is True or value is False:
            return value
        raise steps.no_such_overload()

    return run


def _absorbing(right: Run, frame: Frame, failure: str, *, deciding: bool) -> bool:
    try:
        value: object = right(frame)
        if value is deciding:
            return deciding
    except errors.EvaluationError:
        pass
    raise errors.EvaluationError(failure)


def _many(terms: list[_Term], *, deciding: bool) -> Run:
    other = not deciding

    def run(frame: Frame) -> bool:
        failure: str | None = None
        for term, cost in terms:
            frame[0] -= cost
            try:
                value: object = term(frame)
            except errors.EvaluationError as error:
                failure = failure or str(error)
                continue
            if value is deciding:
                return deciding
            if value is not other:
                failure = failure or "no such overload"
        if failure is not None:
            raise errors.EvaluationError(failure)
        return other

    return run


def negation(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``!a``."""
    operand = planner.step(node.args[0])
    inner = operand.run

    def run(frame: Frame) -> bool:
        value = inner(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise steps.no_such_overload()

    return Step(run, operand.cost + 1)


def conditional(planner: Planner, node: nodes.Call) -> Step:
    """Plan ``a ? b : c``: only the chosen branch runs."""
    condition = planner.step(node.args[0])
    chosen, other = (as_dynamic(planner.step(branch), branch, node.type) for branch in node.args[1:])
    test = condition.run
    run_chosen, cost_chosen = chosen.run, chosen.cost
    run_other, cost_other = other.run, other.cost

    def run(frame: Frame) -> object:
        value = test(frame)
        if value is True:
            frame[0] -= cost_chosen
            return run_chosen(frame)
        if value is False:
            frame[0] -= cost_other
            return run_other(frame)
        raise steps.no_such_overload()

    return Step(run, condition.cost)


def as_dynamic(step: Step, node: nodes.Expr, target: types.CelType) -> Step:
    """Convert a typed object for a place of type ``dyn``, where its schema is not known."""
    source = node.type
    if target.kind is not types.Kind.DYN or source.kind is types.Kind.DYN or equality.is_plain(source):
        return step
    inner = step.run
    return Step(lambda frame: equality.to_dynamic(inner(frame), source), step.cost)
