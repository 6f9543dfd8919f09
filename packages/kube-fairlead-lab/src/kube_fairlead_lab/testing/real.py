"""One rule for tests that need a real component: skip with the reason, or fail where all are required."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from kube_fairlead.base.environment import Environment

__all__ = ["import_real", "require_real"]


def require_real(part: str, *, present: bool, remedy: str, environment: Environment | None = None) -> None:
    """Skip the running test (or module) if a real component is missing; fail it under FAIRLEAD_REQUIRE_REAL=1."""
    if present:
        return
    reason = f"{part} is missing; {remedy}"
    if (environment or Environment.of_process()).flag("FAIRLEAD_REQUIRE_REAL"):
        pytest.fail(f"{reason} (FAIRLEAD_REQUIRE_REAL=1)", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def import_real(module: str, *, remedy: str, environment: Environment | None = None) -> Any:
    """Import a module that not every platform has, under the same rule."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        found = None
    require_real(module, present=found is not None, remedy=remedy, environment=environment)
    return found
