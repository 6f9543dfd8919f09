from __future__ import annotations

import pytest

from kube_fairlead.manager.selection import SelectionError, parse_groups, select

KNOWN = {"gc": True, "stall": True, "claimer": False}


@pytest.mark.parametrize(
    ("wanted", "running"),
    [
        (["*"], ["gc", "stall"]),
        (["*", "claimer"], ["gc", "stall", "claimer"]),
        (["*", "-gc"], ["stall"]),
        (["-gc", "*"], ["stall"]),
        (["claimer"], ["claimer"]),
        (["claimer", "gc"], ["gc", "claimer"]),
        (["-gc"], []),
        (["gc", "-gc"], ["gc"]),  # upstream: the first mention counts
        ([], []),
    ],
)
def test_controllers_are_chosen_as_upstream_does(wanted: list[str], running: list[str]) -> None:
    assert select(wanted, known=KNOWN) == running


@pytest.mark.parametrize("name", ["gx", "-gx"])
def test_an_unknown_controller_is_refused(name: str) -> None:
    with pytest.raises(SelectionError, match=f'"{name}" is not in the list of known controllers: gc, stall, claimer'):
        select(["*", name], known=KNOWN)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("a=gc,stall;b=claimer", {"a": ["gc", "stall"], "b": ["claimer"]}),
        (" a = gc , stall ; b = claimer ; ", {"a": ["gc", "stall"], "b": ["claimer"]}),
        ("a=gc;b=", {"a": ["gc"], "b": ["stall", "claimer"]}),
        ("a=gc;b=stall", {"a": ["gc"], "b": ["stall", "claimer"]}),
    ],
)
def test_groups_are_read_and_nothing_is_forgotten(text: str, groups: dict[str, list[str]]) -> None:
    assert parse_groups(text, running=list(KNOWN)) == groups


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no group is named"),
        ("gc,stall", "is no group of controllers; write name=controller,controller"),
        ("A=gc", "is no group of controllers"),
        ("a=gc;a=stall", "group a is named twice"),
        ("a=gc;b=gc", "gc is in group a and cannot be in b too"),
        ("a=other", "group a names other, which does not run; these do: gc, stall, claimer"),
    ],
)
def test_groups_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SelectionError, match=problem):
        parse_groups(text, running=list(KNOWN))
