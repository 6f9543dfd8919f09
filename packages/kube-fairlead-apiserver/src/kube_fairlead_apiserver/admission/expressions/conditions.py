"""Match conditions: expressions that must all be true before a webhook is called or a policy is evaluated.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/matchconditions/matcher.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead_apiserver.admission.expressions.compilation import Expression
from kube_fairlead_apiserver.admission.expressions.evaluation import Activation, ExpressionFailed, OutOfBudget
from kube_fairlead_apiserver.cel import budget

__all__ = ["ConditionsFailed", "conditions_hold"]


class ConditionsFailed(Exception):
    """Conditions have no value, and the failure policy rejects the write."""


def conditions_hold(conditions: Sequence[Expression], activation: Activation, *, fail_open: bool) -> bool:
    """Return whether all conditions are true.

    One false condition decides, whatever the errors of others. Otherwise an error means "no match" with failurePolicy
    Ignore, and raises with Fail.
    """
    if not conditions:
        return True
    activation.spend(budget.Budget(budget.MATCH_CONDITIONS_COST_MAX))
    problems: list[str] = []
    for condition in conditions:
        try:
            if activation.evaluate(condition) is False:
                return False
        except ExpressionFailed as error:
            problems.append(str(error))
        except OutOfBudget as error:
            problems = [str(error)]
            break
    if not problems:
        return True
    if fail_open:
        return False
    unique = list(dict.fromkeys(problems))
    raise ConditionsFailed(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
