"""When certificates are made anew, over the years and whatever is found."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from kube_fairlead.base import certificates
from kube_fairlead.base.certificates import Pair
from kube_fairlead.webhook import certificate_rotation
from kube_fairlead.webhook.certificate_rotation import Change, Lifetimes, Stored

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAMES = ("fairlead-webhook.fairlead-system.svc", "10.0.0.1")
LIFETIMES = Lifetimes()


def made(now: dt.datetime = START) -> Stored:
    return certificate_rotation.changed(None, Change.ALL, NAMES, now, LIFETIMES)


def test_a_new_one_is_good_and_carries_its_names() -> None:
    stored = made()
    assert certificate_rotation.decide(stored, NAMES, START, LIFETIMES) is Change.NOTHING
    leaf = certificates.inspect(stored.leaf, stored.authority)
    assert leaf is not None
    assert leaf.names == set(NAMES)
    assert leaf.until == START + LIFETIMES.leaf
    assert b"PRIVATE" not in repr(stored).encode()


def test_over_two_years_what_is_shown_was_always_trusted_before_and_never_old() -> None:
    now, stored, trusted_since = START, None, dict[bytes, dt.datetime]()
    seen: list[Change] = []
    while now < START + dt.timedelta(days=730):
        change = certificate_rotation.decide(stored, NAMES, now, LIFETIMES)
        seen.append(change)
        stored = certificate_rotation.changed(stored, change, NAMES, now, LIFETIMES)
        for authority in (stored.authority, stored.following):
            if authority is not None:
                trusted_since.setdefault(authority.certificate, now)
        leaf = certificates.inspect(stored.leaf, stored.authority)
        assert leaf is not None
        assert leaf.until - now > LIFETIMES.leaf / 4
        assert stored.authority.certificate in stored.bundle
        is_first = trusted_since[stored.authority.certificate] == START
        assert is_first or now - trusted_since[stored.authority.certificate] >= LIFETIMES.spread
        if change is Change.AUTHORITY:
            assert stored.before in stored.bundle  # what replicas still show that have not looked yet
        now += dt.timedelta(hours=6)
    assert [seen.count(one) for one in (Change.ALL, Change.FOLLOWING, Change.AUTHORITY)] == [1, 2, 2]
    assert seen.count(Change.LEAF) > 20


@pytest.mark.parametrize(
    ("spoilt", "expected"),
    [
        (lambda stored: None, Change.ALL),
        (lambda stored: dataclasses.replace(stored, authority=Pair(b"x", b"y")), Change.ALL),
        (lambda stored: dataclasses.replace(stored, authority=made().authority), Change.LEAF),
        (lambda stored: dataclasses.replace(stored, leaf=Pair(b"x", b"y")), Change.LEAF),
        (lambda stored: dataclasses.replace(stored, leaf=Pair(stored.leaf.certificate, made().leaf.key)), Change.LEAF),
    ],
)
def test_what_cannot_be_used_is_made_anew(spoilt: object, expected: Change) -> None:
    assert callable(spoilt)
    found = spoilt(made())
    change = certificate_rotation.decide(found, NAMES, START, LIFETIMES)
    assert change is expected
    cured = certificate_rotation.changed(found, change, NAMES, START, LIFETIMES)
    assert certificate_rotation.decide(cured, NAMES, START, LIFETIMES) is Change.NOTHING


def test_other_names_need_another_leaf_and_the_same_authority() -> None:
    stored = made()
    assert certificate_rotation.decide(stored, ("other",), START, LIFETIMES) is Change.LEAF
    assert certificate_rotation.changed(stored, Change.LEAF, ("other",), START, LIFETIMES).authority == stored.authority


def test_an_authority_that_has_ended_is_replaced_at_once() -> None:
    assert certificate_rotation.decide(made(), NAMES, START + LIFETIMES.authority, LIFETIMES) is Change.ALL
