"""The Common Expression Language, as Kubernetes uses it: CRD rules, admission policies, match conditions.

The journey of a source: ``lexer`` > ``parser`` (with ``macros``) > ``checker`` > ``validators`` > ``planner``, which
makes closures; ``environment`` walks it and hands out programs. JSON is bound as it is and read through its schema's
type only where an expression looks. Knows nothing of requests, storage or admission; evaluates, never decides what a
result means.
"""

from __future__ import annotations

from fairlead.apiserver.cel.budget import Budget
from fairlead.apiserver.cel.environment import Environment, Program
from fairlead.apiserver.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Issue
from fairlead.apiserver.cel.schema_types import from_schema

__all__ = [
    "Budget",
    "CelError",
    "CompileError",
    "CostExceeded",
    "Environment",
    "EvaluationError",
    "Issue",
    "Program",
    "from_schema",
]
