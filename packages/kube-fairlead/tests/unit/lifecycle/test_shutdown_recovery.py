from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.lifecycle.shutdown_recovery import (
    Begin,
    Cancelled,
    Found,
    NoShutdown,
    Rebooted,
    Recovery,
    Resume,
    Witness,
    recover,
)

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
BOOTED = NOW - dt.timedelta(hours=1)
START = NOW - dt.timedelta(seconds=5)
BEFORE = BOOTED - dt.timedelta(minutes=3)
SECOND = dt.timedelta(seconds=1)
GIVEN_UP = NOW - dt.timedelta(minutes=10, seconds=30)


def found(**what: object) -> Found:
    facts: dict[str, object] = {
        "boot_id": "this",
        "booted_at": BOOTED,
        "now": NOW,
        "budget_seconds": 30.0,
        "preparing": None,
        **what,
    }
    return Found(**facts)  # type: ignore[arg-type]  # a test's own table


THIS = Witness(START, "this")
OVER = Witness(START, "this", complete=True, called_off=True)
EARLIER = Witness(BEFORE, "earlier", complete=True)


@pytest.mark.parametrize(
    ("facts", "course"),
    [
        (found(), NoShutdown()),
        (found(preparing=False), NoShutdown()),
        (found(preparing=True), Begin()),
        (found(preparing=True, file=THIS), Resume(START, False)),
        (found(preparing=None, file=THIS), Resume(START, False)),
        (found(preparing=None, event=THIS), Resume(START, False)),
        (found(preparing=True, condition=Witness(START)), Resume(START, False)),
        (found(preparing=None, condition=Witness(START)), Resume(START, False)),
        (found(preparing=False, file=THIS), Cancelled(START)),
        (found(preparing=False, event=THIS), Cancelled(START)),
        (found(preparing=False, file=EARLIER), Rebooted(BEFORE, True)),
        (found(preparing=None, event=EARLIER), Rebooted(BEFORE, True)),
        (found(preparing=False, condition=Witness(BEFORE)), Rebooted(BEFORE, False)),
        (found(preparing=True, file=EARLIER), Begin(left_over=True)),
        (found(preparing=True, file=EARLIER, event=THIS), Resume(START, False)),
        (found(preparing=True, file=Witness(START, "this", complete=True)), Resume(START, True)),
        # What was called off and not wound up yet does not come to life again by another shutdown.
        (found(preparing=True, file=OVER), Begin(left_over=True)),
        (found(preparing=False, file=OVER), Cancelled(START)),
        (found(preparing=None, file=OVER), Cancelled(START)),
        # A time from before the boot does not matter where the boot is named: clocks may be wrong at boot.
        (found(preparing=True, file=Witness(BEFORE, "this")), Resume(BEFORE, False)),
        (found(preparing=None, file=Witness(BOOTED, "this")), Cancelled(BOOTED)),
        # Ten minutes after the time that it had, nobody believes in it any more.
        (found(preparing=None, file=Witness(GIVEN_UP, "this")), Resume(GIVEN_UP, False)),
        (found(preparing=None, file=Witness(GIVEN_UP - SECOND, "this")), Cancelled(GIVEN_UP - SECOND)),
        (found(preparing=None, now=BOOTED, condition=Witness(BOOTED)), Resume(BOOTED, False)),
        # Of several witnesses the first one knows when it began.
        (found(preparing=True, file=THIS, event=Witness(NOW, "this")), Resume(START, False)),
        (found(file=EARLIER, condition=Witness(BEFORE - SECOND)), Rebooted(BEFORE - SECOND, True)),
    ],
)
def test_what_a_starting_agent_does(facts: Found, course: Recovery) -> None:
    assert recover(facts) == course


witnesses = st.none() | st.builds(
    Witness,
    st.sampled_from([START, BEFORE, BOOTED, NOW]),
    st.sampled_from(["", "this", "earlier"]),
    st.booleans(),
)


@given(witnesses, witnesses, witnesses)
def test_a_machine_that_says_it_goes_down_is_never_taken_for_one_that_does_not(
    file: Witness | None, event: Witness | None, condition: Witness | None
) -> None:
    """Invariant 10."""
    course = recover(found(preparing=True, file=file, event=event, condition=condition))
    assert isinstance(course, Begin | Resume)


@given(witnesses, witnesses, witnesses, st.sampled_from([True, None]))
def test_any_witness_of_this_boot_is_enough_to_go_on(
    file: Witness | None, event: Witness | None, condition: Witness | None, preparing: bool | None
) -> None:
    facts = found(preparing=preparing, file=file, event=event, condition=condition, now=START)
    if any(one.is_of_boot("this", BOOTED) for one in facts.witnesses) and preparing:
        assert isinstance(recover(facts), Resume)
