"""What becomes of published transitions, as a pure decision."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.api.reserved import ANNOTATION_OFFERED_AT
from kube_fairlead.lifecycle import offers
from tests.unit.lifecycle.world import DRIVER, START, transition

OFFER = transition(sla="10m").spec
MINUTE = dt.timedelta(minutes=1)


def published(driver: str = DRIVER, at: dt.datetime = START) -> LifecycleTransition:
    return wire.replace_metadata(
        transition(sla="10m", driver=driver), annotations=offers.published_annotations(driver, at)
    )


def test_what_is_missing_is_created() -> None:
    assert offers.publish(None, OFFER, DRIVER, [], START) == offers.Create()


def test_what_says_the_same_fits_and_is_renewed_when_it_is_old() -> None:
    assert offers.publish(published(), OFFER, DRIVER, [], START + 19 * MINUTE) == offers.UpToDate()
    assert offers.publish(published(), OFFER, DRIVER, [], START + 20 * MINUTE) == offers.Renew()


def test_what_a_user_made_is_never_renewed_replaced_or_collected() -> None:
    made = transition(sla="10m")
    assert offers.publish(made, OFFER, DRIVER, [], START + 60 * MINUTE) == offers.UpToDate()
    assert offers.collectable_at(made, MINUTE) is None
    decision = offers.publish(made, wire.replace(OFFER, sla="5m"), DRIVER, [], START)
    assert isinstance(decision, offers.Refuse)
    assert "spec.sla is '10m' and the driver offers '5m'" in decision.why
    assert "never overwritten" in decision.why


def test_a_changed_offer_replaces_what_was_published_for_the_same_driver_once_no_event_uses_it() -> None:
    changed = wire.replace(OFFER, sla=None, end="elsewhere")
    decision = offers.publish(published(), changed, DRIVER, ["e-1"], START)
    assert decision == offers.Refuse(
        "LifecycleTransition reboot exists with another spec: spec.end is 'reboot-z' and the driver offers "
        "'elsewhere'; spec.sla is '10m' and the driver offers unset; it is replaced when no event uses it any more: e-1"
    )
    assert offers.publish(published(), changed, DRIVER, [], START) == offers.Replace()


@pytest.mark.parametrize("theirs", ["example.com/other", "example.com/reboot2"])
def test_what_was_published_for_another_driver_stays(theirs: str) -> None:
    decision = offers.publish(published(theirs), OFFER, DRIVER, [], START)
    assert isinstance(decision, offers.Refuse)
    assert f"spec.driver is '{theirs}' and the driver offers '{DRIVER}'" in decision.why


def test_what_is_no_longer_offered_is_collectable_after_a_while() -> None:
    assert offers.collectable_at(published(), 60 * MINUTE) == START + 60 * MINUTE
    unreadable = wire.replace_metadata(
        published(), annotations={**published().metadata.annotations, ANNOTATION_OFFERED_AT: "soon"}
    )
    assert offers.collectable_at(unreadable, MINUTE) is None
    assert offers.publish(unreadable, OFFER, DRIVER, [], START) == offers.Renew()
