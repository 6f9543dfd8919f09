from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.election import LeaderElectionRecord
from kube_fairlead.manager.lock_balance import lock_to_request


def locks(**holders: str) -> dict[str, LeaderElectionRecord]:
    return {name: LeaderElectionRecord(holder=holder) for name, holder in holders.items()}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (locks(x="a", y="a"), "x"),
        (locks(x="a", y="a", z="b"), "x"),
        (locks(x="a", y="b", z="b"), "y"),
        (locks(x="a", y="me"), None),
        (locks(x="a", y="a", z="me"), None),
        (locks(x="a", y="a", z="a", w="me"), "x"),
        (locks(x="a", y=""), None),
        (locks(x="a"), None),
        (locks(x="me", y="me"), None),
        ({**locks(x="a", y="a"), "z": LeaderElectionRecord(holder="a", preferred_holder="b")}, None),
    ],
)
def test_who_has_two_fewer_asks_for_one(held: dict[str, LeaderElectionRecord], wanted: str | None) -> None:
    assert lock_to_request(held, "me") == wanted


@given(
    holders=st.lists(st.sampled_from(["r0", "r1", "r2"]), min_size=1, max_size=8),
    order=st.lists(st.sampled_from(["r0", "r1", "r2"]), max_size=30),
)
def test_asking_comes_to_an_end_with_all_fair(holders: list[str], order: list[str]) -> None:
    held = {f"l{number}": LeaderElectionRecord(holder=holder) for number, holder in enumerate(holders)}
    moves = 0
    for replica in [*order, *["r0", "r1", "r2"] * len(holders)]:
        if (wanted := lock_to_request(held, replica)) is not None:
            held[wanted] = LeaderElectionRecord(holder=replica)
            moves += 1
    counts = [sum(record.holder == replica for record in held.values()) for replica in ("r0", "r1", "r2")]
    assert max(counts) - min(counts) <= 1
    assert moves <= len(holders)
