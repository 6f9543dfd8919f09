"""Shares of one limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.user_limits import PerUserLimit, SharedLimit


def fill(ledger: SharedLimit, users: list[str]) -> dict[str, int]:
    """Users take one at a time, in turn, until none may take more."""
    while taking := [user for user in users if ledger.fits(user, 1)]:
        for user in taking:
            if ledger.fits(user, 1):
                ledger.take(user, 1)
    return ledger.held


@pytest.mark.parametrize(("users", "each"), [("a", 30), ("ab", 20), ("abc", 15), ("abcd", 12)])
def test_equal_shares_with_room_for_one_more(users: str, each: int) -> None:
    ledger = SharedLimit(60)
    assert fill(ledger, list(users)) == dict.fromkeys(users, each)
    assert ledger.fits("newcomer", each)


def test_a_limit_of_one() -> None:
    ledger = SharedLimit(1)
    assert fill(ledger, ["a", "b"]) == {"a": 1}


def test_without_a_limit_everything_fits_and_is_counted() -> None:
    ledger = SharedLimit(0)
    ledger.take("a", 10**9)
    assert ledger.fits("a", 10**9)
    assert ledger.total == 10**9


def test_a_user_who_holds_nothing_may_take_nothing_though_the_limit_is_exceeded() -> None:
    ledger = SharedLimit(10)
    ledger.take("a", 30)  # an answer, whose size was not known before
    assert ledger.fits("b", 0)
    assert not ledger.fits("b", 1)
    assert not ledger.fits("a", 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=60), st.integers(1, 100))
def test_what_fits_never_exceeds_the_limit(asked: list[tuple[str, int]], limit: int) -> None:
    """Invariants 1 and 2."""
    ledger = SharedLimit(limit)
    taken: list[tuple[str, int]] = []
    for user, amount in asked:
        if ledger.fits(user, amount):
            ledger.take(user, amount)
            taken.append((user, amount))
        assert ledger.total == sum(ledger.held.values()) <= limit
        assert all(ledger.held.values())
    for user, amount in taken:
        ledger.give(user, amount)
    assert (ledger.total, ledger.held) == (0, {})


def test_an_allowance_is_each_users_own() -> None:
    allowance = PerUserLimit(10)
    allowance.take("a", 9)
    assert allowance.has_room("a")
    allowance.take("a", 30)  # what has to be taken anyway may pass the limit
    assert not allowance.has_room("a")
    assert allowance.has_room("b")
    allowance.give("a", 39)
    assert (allowance.has_room("a"), allowance.total, allowance.held) == (True, 0, {})
