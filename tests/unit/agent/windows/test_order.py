from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.windows.order import placed_before

# The nine cases of upstream's own test, with our service for its kubelet.
UPSTREAM = [
    ([], [], []),
    ([], ["agent", "a", "b", "c"], ["agent", "a", "b", "c"]),
    (["a", "b", "c"], [], ["agent", "a", "b", "c"]),
    (["a", "b", "c"], ["d", "e", "f"], ["d", "e", "f", "agent", "a", "b", "c"]),
    (["a", "b", "c"], ["d", "b", "a", "f"], ["d", "agent", "b", "a", "f", "c"]),
    (["a", "b", "c"], ["d", "b", "agent", "a", "f"], ["d", "agent", "b", "a", "f", "c"]),
    (["a", "b", "c"], ["d", "f", "agent", "a", "b", "c"], ["d", "f", "agent", "a", "b", "c"]),
    (["a", "b", "b", "c"], ["d", "b", "a", "f"], ["d", "agent", "b", "a", "f", "c"]),
    (["a", "b", "c"], ["d", "b", "a", "f", "b"], ["d", "agent", "b", "a", "f", "b", "c"]),
]


@pytest.mark.parametrize(("dependencies", "order", "expected"), UPSTREAM)
def test_the_nine_cases_of_upstream(dependencies: list[str], order: list[str], expected: list[str]) -> None:
    assert placed_before("agent", dependencies, order) == expected


@pytest.mark.parametrize(
    ("dependencies", "order", "expected"),
    [
        (["Containerd"], ["x", "containerd", "AGENT"], ["x", "agent", "containerd"]),
        (["a", "A"], [], ["agent", "a"]),
        (["a"], ["agent", "Agent", "a"], ["agent", "a"]),
    ],
)
def test_windows_does_not_tell_names_apart_by_case(
    dependencies: list[str], order: list[str], expected: list[str]
) -> None:
    assert placed_before("agent", dependencies, order) == expected


NAMES = st.lists(st.sampled_from(["agent", "a", "B", "b", "c", "d"]), max_size=6)


@given(st.lists(st.sampled_from(["a", "B", "c"]), min_size=1, max_size=4), NAMES)
def test_it_comes_once_and_first_and_nobody_else_is_moved_or_lost(dependencies: list[str], order: list[str]) -> None:
    placed = placed_before("agent", dependencies, order)
    assert placed.count("agent") == 1
    for name in dependencies:
        assert placed.index("agent") < [one.casefold() for one in placed].index(name.casefold())
    others = [name for name in order if name != "agent"]
    assert [name for name in placed if name != "agent"][: len(others)] == others
    assert placed_before("agent", dependencies, placed) == placed
