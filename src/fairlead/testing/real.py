"""One rule for tests that need a real part: skip with the reason, or fail where everything must be there."""

from __future__ import annotations

import pytest

from fairlead.base.environment import Environment

__all__ = ["require_real"]


def require_real(part: str, *, present: bool, remedy: str, environment: Environment | None = None) -> None:
    """Skip the running test when a real part is missing; fail it instead under FAIRLEAD_REQUIRE_REAL=1."""
    if present:
        return
    reason = f"{part} is missing; {remedy}"
    if (environment or Environment.of_process()).flag("FAIRLEAD_REQUIRE_REAL"):
        pytest.fail(f"{reason} (FAIRLEAD_REQUIRE_REAL=1)", pytrace=False)
    pytest.skip(reason)
