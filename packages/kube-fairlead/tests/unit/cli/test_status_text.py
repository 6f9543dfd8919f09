from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.cli.status_text import as_json, as_page, as_table
from kube_fairlead.cli.text_tables import span
from kube_fairlead.lifecycle.node_overview import Claimant, EventOverview, NodeOverview
from kube_fairlead.overview import ClusterStatus, NodeSummary, Platform


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (601, "10m"),
        (3 * 3600, "3h"),
        (47 * 3600, "47h"),
        (5 * 86400, "5d"),
        (-30, "-30s"),
    ],
)
def test_spans(seconds: int, expected: str) -> None:
    assert span(dt.timedelta(seconds=seconds)) == expected


def test_why_an_event_waits_is_as_seen_now() -> None:
    """What the agent wrote may be old: it may be gone since."""
    event = EventOverview(
        name="e",
        transition="t",
        status="Pending",
        message="waiting: there is no LifecycleTransition t",
        waits_for="the node has no claimant",
    )
    node = NodeOverview(name="n", waiting=(event,))
    status = ClusterStatus(
        now=dt.datetime(2026, 3, 1, tzinfo=dt.UTC), nodes=(NodeSummary(node=node, platform=Platform()),)
    )
    for shown in (as_table(status), as_page(status)):
        assert "the node has no claimant" in shown
        assert "there is no LifecycleTransition" not in shown


def test_the_table_is_short_and_the_page_and_the_data_hold_everything() -> None:
    holder = "hollow-0_3f0c2d58-1b7e-4c39-9d0a-52c1f8ab9e77"
    long = "driver example.com/d: " + ", ".join(f"shop/web-{number} by budget web" for number in range(40))
    now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    claimant = Claimant(holder=holder, renewed=now - dt.timedelta(minutes=9), is_alive=False)
    event = EventOverview(name="e", transition="t", status="Claimed", message=long, claimed_by="")
    busy = NodeOverview(name="n", claimant=claimant, current=event)
    idle = NodeOverview(name="i", claimant=claimant)
    status = ClusterStatus(now=now, nodes=tuple(NodeSummary(node=node, platform=Platform()) for node in (busy, idle)))
    _, first, second = as_table(status).splitlines()
    for line in (first, second):
        assert "   hollow-0   " in line
    assert first.endswith(f"   {long[:77]}...; its claimant has not renewed the Lease for 9m")
    for whole in (as_page(status), as_json(status)):
        assert long in whole
        assert holder in whole


def test_a_holder_that_only_looks_a_little_like_it_is_shown_whole() -> None:
    claimant = Claimant(holder="my_agent-2_x", renewed=None, is_alive=True)
    now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    status = ClusterStatus(
        now=now, nodes=(NodeSummary(node=NodeOverview(name="n", claimant=claimant), platform=Platform()),)
    )
    assert "   my_agent-2_x   " in as_table(status)


def test_what_a_driver_says_is_on_the_page_once() -> None:
    blocked = "blocked: shop/web-1 by budget web"
    event = EventOverview(
        name="e",
        transition="t",
        status="Claimed",
        message=blocked,
        waits_for=f"driver example.com/d has not reached the end state Done; {blocked}",
    )
    node = NodeOverview(name="n", current=event)
    status = ClusterStatus(
        now=dt.datetime(2026, 3, 1, tzinfo=dt.UTC), nodes=(NodeSummary(node=node, platform=Platform()),)
    )
    page = as_page(status)
    assert page.count(blocked) == 1
    assert "Waits for:  driver example.com/d has not reached the end state Done\n" in page
