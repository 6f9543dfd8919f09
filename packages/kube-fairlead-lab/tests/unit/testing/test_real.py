from __future__ import annotations

import json

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead_lab.testing.real import import_real, require_real


def test_a_present_part_passes() -> None:
    require_real("part", present=True, remedy="build it", environment=Environment({"FAIRLEAD_REQUIRE_REAL": "1"}))


def test_a_missing_part_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match="part is missing; build it"):
        require_real("part", present=False, remedy="build it", environment=Environment({}))


def test_a_missing_part_fails_where_all_are_required() -> None:
    environment = Environment({"FAIRLEAD_REQUIRE_REAL": "1"})
    with pytest.raises(pytest.fail.Exception, match="part is missing; build it"):
        require_real("part", present=False, remedy="build it", environment=environment)


def test_a_missing_module_is_a_missing_part() -> None:
    assert import_real("json", remedy="none") is json
    with pytest.raises(pytest.skip.Exception, match="no_such_module is missing; look elsewhere"):
        import_real("no_such_module", remedy="look elsewhere", environment=Environment({}))
    with pytest.raises(pytest.fail.Exception, match="no_such_module is missing"):
        import_real("no_such_module", remedy="", environment=Environment({"FAIRLEAD_REQUIRE_REAL": "1"}))
