from __future__ import annotations

import pytest

from fairlead.lifecycle.drain.rollout import Limits, startable

ZONES = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}


@pytest.mark.parametrize(
    ("waiting", "active", "limits", "expected"),
    [
        ("a1 a2 b1", "", Limits(), "a1"),
        ("a1 a2 b1", "a3", Limits(), ""),
        ("a1 a2 b1", "a3", Limits(max_unavailable=3), "a1 a2"),
        ("a1 a2 b1", "", Limits(max_unavailable=3, per_zone=1), "a1 b1"),
        ("a1 a2 b1", "a3", Limits(max_unavailable=3, per_zone=1), "b1"),
        ("a1 a2 b1", "a3", Limits(max_unavailable=9, per_zone=2), "a1 b1"),
        ("a1 b1 b2", "a2 a3", Limits(max_unavailable=9, per_zone=2), "b1 b2"),
        ("a1", "a2 a3", Limits(max_unavailable=9, per_zone=3), "a1"),
        # Those without a zone are one zone of their own.
        ("x y a1", "", Limits(max_unavailable=3, per_zone=1), "x a1"),
        ("x a1", "y", Limits(max_unavailable=3, per_zone=1), "a1"),
    ],
)
def test_which_nodes_may_be_started(waiting: str, active: str, limits: Limits, expected: str) -> None:
    assert startable(waiting.split(), active.split(), ZONES, limits) == tuple(expected.split())
