"""Who stands in whose way, and when one claimant of many nodes has something to do for one of them."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventStatus
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.lifecycle import claims
from tests.unit.lifecycle.world import DRIVER, START, event, node, transition

US, THEM = "claimer/us", "node/them"
KEEP = dt.timedelta(minutes=5)
EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


def made(
    claim_status: str = "Pending",
    claimed_by: str = "",
    *,
    name: str = "e",
    held: bool = False,
    deleting: bool = False,
    at: dt.datetime = START,
) -> LifecycleEvent:
    finished = claim_status in {"Succeeded", "Failed", "SlaExpired"}
    one = wire.replace(
        event(name),
        status=LifecycleEventStatus(
            claim_status=claim_status, claimed_by=claimed_by, completion_time=at if finished else None
        ),
    )
    return wire.replace_metadata(
        one,
        finalizers=(FINALIZER_CLAIMED,) if held else (),
        deletion_timestamp=START if deleting else None,
    )


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), False),
        ((made("Claimed", THEM),), True),
        ((made("Claimed", US),), False),
        ((made("Claimed", THEM), made("Claimed", US)), False),
        ((made("Claimed", THEM), made("Succeeded", US, held=True)), False),
        ((made("Claimed", THEM), made("Succeeded", US)), True),
        ((made("Claimed", ""),), False),  # by the proposal alone: it holds no Lease
        ((made("Pending"), made("Succeeded", THEM)), False),
    ],
)
def test_who_is_in_the_way(events: tuple[LifecycleEvent, ...], expected: bool) -> None:
    assert claims.blocks_other_claimant(events, US) is expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), None),
        ((made(),), EARLIEST),
        ((made(deleting=True),), None),
        ((made(), made("Claimed", THEM, name="f")), None),
        ((made("Claimed", US),), EARLIEST),
        ((made("Failed", US, held=True),), EARLIEST),
        ((made("Failed", US),), START + KEEP),
        ((made("Failed", US, deleting=True),), None),
        ((made("Failed", THEM),), None),
        ((made("Failed", US, at=START + KEEP), made("Succeeded", US, name="f")), START + KEEP),
        ((made("Failed", US), made(name="f")), EARLIEST),
    ],
)
def test_when_there_is_something_to_do(events: tuple[LifecycleEvent, ...], expected: dt.datetime | None) -> None:
    offered = transition()
    drivers = {DRIVER: frozenset({(offered.spec.start, offered.spec.end)})}
    known = {offered.name: offered}
    assert claims.lease_needed_from(node(), events, known, drivers, claimant=US, keep=KEEP) == expected


def test_what_cannot_be_claimed_as_things_are_is_no_reason_to_hold_a_lease() -> None:
    offered = transition()
    assert claims.lease_needed_from(node(), [made()], {offered.name: offered}, {}, claimant=US, keep=KEEP) is None


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (made("Claimed", THEM, name="a"), True),
        (made("Succeeded", US, name="a", held=True), True),
        (made("Succeeded", US, name="a"), False),
        (made("Succeeded", THEM, name="a", held=True), False),
        (made(name="a"), True),
        (made(name="z"), False),
        (made(name="a", deleting=True), False),
    ],
)
def test_who_goes_first(other: LifecycleEvent, expected: bool) -> None:
    mine = made()
    found = claims.preceding_event(mine, (mine, other), claimant=US, is_ready={"a": True, "z": True, "e": True})
    assert found == (other if expected else None)
    unready = claims.preceding_event(mine, (mine, other), claimant=US, is_ready={})
    assert unready == (other if expected and other.status.claimed_by else None)
