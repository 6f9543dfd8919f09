from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.agent.windows.shutdown_order import placed

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
    assert placed("agent", order, needs=dependencies) == expected


@pytest.mark.parametrize(
    ("dependencies", "order", "expected"),
    [
        (["Containerd"], ["x", "containerd", "AGENT"], ["x", "agent", "containerd"]),
        (["a", "A"], [], ["agent", "a"]),
        (["a"], ["agent", "Agent", "a"], ["agent", "a"]),
    ],
)
def test_names_are_compared_without_case(dependencies: list[str], order: list[str], expected: list[str]) -> None:
    assert placed("agent", order, needs=dependencies) == expected


NAMES = st.lists(st.sampled_from(["agent", "a", "B", "b", "c", "d"]), max_size=6)


@given(st.lists(st.sampled_from(["a", "B", "c"]), min_size=1, max_size=4), NAMES)
def test_it_comes_once_and_first_and_no_other_is_moved_or_lost(dependencies: list[str], order: list[str]) -> None:
    result = placed("agent", order, needs=dependencies)
    assert result.count("agent") == 1
    for name in dependencies:
        assert result.index("agent") < [one.casefold() for one in result].index(name.casefold())
    others = [name for name in order if name != "agent"]
    assert [name for name in result if name != "agent"][: len(others)] == others
    assert placed("agent", result, needs=dependencies) == result


@pytest.mark.parametrize(
    ("needs", "order", "expected"),
    [
        # At every start the kubelet places itself directly before its dependencies: after the agent.
        (["containerd"], ["agent", "kubelet", "containerd"], ["kubelet", "agent", "containerd"]),
        (["containerd"], ["x", "Kubelet", "containerd"], ["x", "Kubelet", "agent", "containerd"]),
        (["containerd"], ["x", "containerd"], ["x", "kubelet", "agent", "containerd"]),
        (["containerd"], [], ["kubelet", "agent", "containerd"]),
        (["containerd"], ["containerd", "kubelet"], ["containerd", "kubelet", "agent"]),
        ([], ["kubelet", "x"], ["kubelet", "agent", "x"]),
        ([], ["agent", "x"], ["x"]),  # Windows notifies both with all others
    ],
)
def test_it_comes_after_a_kubelet_that_ends_the_pods(needs: list[str], order: list[str], expected: list[str]) -> None:
    assert placed("agent", order, needs=needs, after="kubelet") == expected
    assert placed("agent", expected, needs=needs, after="kubelet") == expected


@pytest.mark.parametrize(
    ("needs", "order", "expected"),
    [
        (["containerd"], ["kubelet", "x", "containerd"], ["agent", "kubelet", "x", "containerd"]),
        (["containerd"], ["containerd", "kubelet"], ["agent", "containerd", "kubelet"]),
        (["containerd"], ["x"], ["x", "agent", "containerd"]),
        ([], ["x", "kubelet"], ["x", "agent", "kubelet"]),
        ([], ["x"], ["x"]),
    ],
)
def test_it_comes_before_a_kubelet_whose_pods_it_ends(needs: list[str], order: list[str], expected: list[str]) -> None:
    assert placed("agent", order, needs=needs, before="kubelet") == expected


@given(NAMES, st.lists(st.sampled_from(["a", "B", "c"]), max_size=4))
def test_after_comes_after_whatever_there_is(order: list[str], needs: list[str]) -> None:
    result = placed("agent", order, needs=needs, after="d")
    assert ("d" in result) == ("agent" in result)
    if "agent" in result:
        assert result.index("agent") == result.index("d") + 1
    assert placed("agent", result, needs=needs, after="d") == result
