"""The table is complete, says what the rules say, and is the one in docs/ownership.md."""

from __future__ import annotations

import pytest

from kube_fairlead.cloud.ownership import Ownership
from tests.unit.cloud.decision_table import ANNOTATIONS, PAGE, PLATFORMS, PROVIDER_IDS, Row, on_page, render, rows

ROWS = list(rows())


def expected_ownership(row: Row) -> Ownership:
    """The rule in words, written down a second time: by hand, for these values."""
    if not row.platforms:
        return Ownership.OWNED
    if row.provider_id == "":
        named = row.annotation or ""
        if named == "":
            return Ownership.UNKNOWN
    else:
        named = {"aws:///z/i-1": "aws", "gce://p/z/n1": "gce"}.get(row.provider_id, "nobody")
    return Ownership.OWNED if named in row.platforms else Ownership.FOREIGN


def test_every_combination_is_there_once() -> None:
    assert len(ROWS) == len(PROVIDER_IDS) * len(ANNOTATIONS) * len(PLATFORMS)
    assert len({(row.provider_id, row.annotation, row.platforms) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.provider_id}|{row.annotation}|{sorted(row.platforms)}")
def test_decisions_follow_from_ownership(row: Row) -> None:
    assert row.whose is expected_ownership(row)
    if row.whose is not Ownership.OWNED:
        assert row.known == row.missing == row.shut_down == "left alone"
        assert row.route == "its routes are left alone"
        assert row.service == "no target"
        asked = "initialised if the cloud answers for it" if row.whose is Ownership.UNKNOWN else "left alone"
        assert row.new == asked
        return
    assert row.new == "initialised"
    if row.platforms and not row.provider_id:
        # An annotation alone: it is looked up and initialised if it waits, and left alone otherwise.
        assert row.known == row.missing == row.shut_down == "left alone"
        assert row.route == "its routes are left alone"
        assert row.service == "no target"
        return
    assert row.route == "its route is made, the other removed"
    assert row.service == "a target"
    # Without platforms a node may have an id that the cloud could not have given: no answer, so nothing follows.
    has_foreign_id = not row.platforms and row.provider_id not in {"", "aws:///z/i-1"}
    assert row.shut_down == ("left alone" if has_foreign_id else "tainted")
    gone = "deleted once that id is gone" if row.provider_id else "left alone, no id"
    assert row.missing == ("left alone" if has_foreign_id else gone)
    assert row.known.startswith("label platform=" if row.platforms else "addresses")


def test_the_page_shows_this_table() -> None:
    shown = on_page(PAGE.read_text(encoding="utf-8"))
    assert shown == render(), "run: python -m tests.unit.cloud.decision_table"
