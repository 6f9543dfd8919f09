"""The Common Expression Language, as Kubernetes uses it: CRD rules, admission policies, match conditions.

The journey of a source: ``lexer`` > ``parser`` (with ``macros``) > ``checker`` > ``validators`` > ``planner``, which
makes closures; ``environment`` walks it and hands out programs. JSON is bound as it is and read through its schema's
type only where an expression looks. Knows nothing of requests, storage or admission; evaluates, never decides what a
result means.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_fairlead_apiserver.cel.budget import Budget
    from kube_fairlead_apiserver.cel.environment import Environment, Program
    from kube_fairlead_apiserver.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Issue

__all__ = [
    "Budget",
    "CelError",
    "CompileError",
    "CostExceeded",
    "Environment",
    "EvaluationError",
    "Issue",
    "Program",
]

_HOMES = {
    "Budget": "budget",
    "CelError": "errors",
    "CompileError": "errors",
    "CostExceeded": "errors",
    "Environment": "environment",
    "EvaluationError": "errors",
    "Issue": "errors",
    "Program": "environment",
}


def __getattr__(name: str) -> Any:
    # Schemas need the regular expressions at once, and the rest only when the first expression is compiled.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
