"""When the webhook's own certificates are renewed. Pure.

API servers trust the webhook by a bundle of authorities in its registration. What they see is always signed by one
that has been in the bundle for a while:

    leaf at 2/3 of its life         a new leaf, by the same authority
    authority at 2/3 of its life    the next authority joins the bundle; leaves are still signed by the one before
    next one long enough there      it takes over, with a leaf of its own; the one before stays in the bundle
    nothing there, or not usable    both renewed
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Sequence
from typing import Final

from kube_fairlead.base import certificates
from kube_fairlead.base.certificates import Facts, Pair

__all__ = ["Change", "Lifetimes", "Stored", "changed", "decide"]

_AUTHORITY_NAME: Final = "fairlead-webhook-ca"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long each certificate is valid, and how long a new authority takes to reach all API servers."""

    leaf: dt.timedelta = dt.timedelta(days=30)
    authority: dt.timedelta = dt.timedelta(days=365)
    spread: dt.timedelta = dt.timedelta(minutes=10)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the replicas of the webhook share."""

    authority: Pair
    leaf: Pair
    following: Pair | None = None  # the next authority, until it takes over
    before: bytes = b""  # the certificate of the authority that signed before this one

    @property
    def bundle(self) -> bytes:
        """What API servers trust."""
        following = b"" if self.following is None else self.following.certificate
        return self.authority.certificate + following + self.before


class Change(enum.Enum):
    """What is to be renewed."""

    NOTHING = enum.auto()
    ALL = enum.auto()
    LEAF = enum.auto()
    FOLLOWING = enum.auto()
    AUTHORITY = enum.auto()  # the next one takes over


def decide(stored: Stored | None, names: Sequence[str], now: dt.datetime, lifetimes: Lifetimes) -> Change:
    """What is to be renewed now."""
    authority = None if stored is None else certificates.inspect(stored.authority)
    if stored is None or authority is None or now >= authority.until:
        return Change.ALL
    following = None if stored.following is None else certificates.inspect(stored.following)
    if following is not None and now >= following.made_at + lifetimes.spread:
        return Change.AUTHORITY
    leaf = certificates.inspect(stored.leaf, stored.authority)
    if leaf is None or leaf.names != certificates.as_written(names) or _is_old(leaf, now):
        return Change.LEAF
    if following is None and _is_old(authority, now):
        return Change.FOLLOWING
    return Change.NOTHING


def changed(
    stored: Stored | None, change: Change, names: Sequence[str], now: dt.datetime, lifetimes: Lifetimes
) -> Stored:
    """What is to be stored instead."""

    def leaf_of(authority: Pair) -> Pair:
        return certificates.make_serving(authority, names, now=now, lifetime=lifetimes.leaf)

    def new_authority() -> Pair:
        return certificates.make_authority(_AUTHORITY_NAME, now=now, lifetime=lifetimes.authority)

    if stored is None or change is Change.ALL:
        authority = new_authority()
        return Stored(authority=authority, leaf=leaf_of(authority))
    if change is Change.LEAF:
        return dataclasses.replace(stored, leaf=leaf_of(stored.authority))
    if change is Change.FOLLOWING:
        return dataclasses.replace(stored, following=new_authority())
    if change is Change.AUTHORITY and stored.following is not None:
        return Stored(authority=stored.following, leaf=leaf_of(stored.following), before=stored.authority.certificate)
    return stored


def _is_old(facts: Facts, now: dt.datetime) -> bool:
    return now >= facts.made_at + (facts.until - facts.made_at) * 2 / 3
