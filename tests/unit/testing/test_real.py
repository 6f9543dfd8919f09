from __future__ import annotations

import pytest

from fairlead.base.environment import Environment
from fairlead.testing.real import require_real


def test_present_says_nothing() -> None:
    require_real("part", present=True, remedy="build it", environment=Environment({"FAIRLEAD_REQUIRE_REAL": "1"}))


def test_missing_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match="part is missing; build it"):
        require_real("part", present=False, remedy="build it", environment=Environment({}))


def test_missing_fails_where_everything_must_be_there() -> None:
    environment = Environment({"FAIRLEAD_REQUIRE_REAL": "1"})
    with pytest.raises(pytest.fail.Exception, match="part is missing; build it"):
        require_real("part", present=False, remedy="build it", environment=environment)
