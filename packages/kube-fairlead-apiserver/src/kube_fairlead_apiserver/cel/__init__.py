"""The Common Expression Language, as Kubernetes uses it: CRD rules, admission policies, match conditions.

A source passes through ``lexer``, ``parser`` (with ``macros``), ``checker``, ``validators`` and ``planner``, which
builds closures; ``environment`` calls them in this order and returns programs. JSON values are bound without
conversion; a value is converted by the type of its schema when an expression reads it. This package knows nothing of
requests, storage or admission. It evaluates; the caller decides what a result means.
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
    # Schemas need regular expressions at start-up, and the rest only when the first expression is compiled.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
