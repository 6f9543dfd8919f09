"""Limits that users share fairly: a user that holds much leaves room for others."""

from __future__ import annotations

__all__ = ["PerUserLimit", "SharedLimit"]


class _Usage:
    """The amount that each user holds.

    `total` is the sum; a user who holds nothing is not listed.
    """

    __slots__ = ("held", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit  # 0: no limit
        self.held: dict[str, int] = {}
        self.total = 0

    def take(self, user: str, amount: int) -> None:
        """Add to the amount of a user. It is not checked, because an unavoidable amount may exceed the limit."""
        if amount:
            self.held[user] = self.held.get(user, 0) + amount
            self.total += amount

    def give(self, user: str, amount: int) -> None:
        """Subtract from the amount of a user."""
        if not amount:
            return
        left = self.held[user] - amount
        self.total -= amount
        if left:
            self.held[user] = left
        else:
            del self.held[user]


class SharedLimit(_Usage):
    """How much of one limit each user holds.

    A user that holds nothing may take what is free. A user that holds something may take more while its total does not
    exceed what is free. So one user alone gets half of the limit, two get a third each, and there is always room for
    one more user, without a list of users or a fixed number of them.

    Invariants:
    1. `total` is the sum of what the users hold; a user who holds nothing is not listed.
    2. An amount that `fits` accepted never raises `total` above the limit.
    """

    __slots__ = ()

    def fits(self, user: str, amount: int) -> bool:
        """Return whether a user may take an amount."""
        if not self.limit:
            return True
        free = self.limit - self.total
        held = self.held.get(user, 0)
        if not held:
            return amount <= free or not amount
        return held + amount <= free


class PerUserLimit(_Usage):
    """How much each user holds of a limit per user.

    The counted amounts are unavoidable, so they may exceed the limit. Such a user takes nothing more until it is below
    the limit again; other users are not affected.
    """

    __slots__ = ()

    def has_room(self, user: str) -> bool:
        """Return whether a user is below its limit."""
        return not self.limit or self.held.get(user, 0) < self.limit
