from __future__ import annotations

from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment


def test_unset_and_empty_are_the_same() -> None:
    environment = Environment({"EMPTY": "", "SET": "x"})
    assert [environment.get(name) for name in ("EMPTY", "MISSING", "SET")] == [None, None, "x"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("0", False), ("No", False), ("", False)],
)
def test_flag(value: str, *, expected: bool) -> None:
    assert Environment({"F": value}).flag("F") is expected


def test_a_missing_flag_is_off() -> None:
    assert Environment({}).flag("F") is False


def test_a_flag_that_is_neither_says_what_it_may_be() -> None:
    with pytest.raises(ValueError, match="F='maybe' must be one of 1, true"):
        Environment({"F": "maybe"}).flag("F")


def test_home() -> None:
    assert Environment({"HOME": "/home/a"}).home() == Path("/home/a")
    assert Environment({"USERPROFILE": "/users/b"}).home() == Path("/users/b")
    assert Environment({}).home().is_absolute()


def test_the_process_environment_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment.of_process()
    monkeypatch.setenv("FAIRLEAD_PROBE", "1")
    assert environment.get("FAIRLEAD_PROBE") == "1"


def test_a_copy_for_a_child_is_a_copy() -> None:
    environment = Environment({"A": "1"})
    copy = environment.as_dict()
    copy["A"] = "2"
    assert environment.get("A") == "1"
