from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.lifecycle.shutdown_recovery import (
    Begin,
    Cancelled,
    NoShutdown,
    Rebooted,
    Recovery,
    RecoveryFacts,
    Resume,
    ShutdownEvidence,
    recover,
)

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
BOOTED = NOW - dt.timedelta(hours=1)
START = NOW - dt.timedelta(seconds=5)
BEFORE = BOOTED - dt.timedelta(minutes=3)
SECOND = dt.timedelta(seconds=1)
GIVEN_UP = NOW - dt.timedelta(minutes=10, seconds=30)


def found(**what: object) -> RecoveryFacts:
    facts: dict[str, object] = {
        "boot_id": "this",
        "booted_at": BOOTED,
        "now": NOW,
        "budget_seconds": 30.0,
        "preparing": None,
        **what,
    }
    return RecoveryFacts(**facts)  # type: ignore[arg-type]  # a test's own table


THIS = ShutdownEvidence(START, "this")
OVER = ShutdownEvidence(START, "this", complete=True, cancelled=True)
EARLIER = ShutdownEvidence(BEFORE, "earlier", complete=True)


@pytest.mark.parametrize(
    ("facts", "recovery"),
    [
        (found(), NoShutdown()),
        (found(preparing=False), NoShutdown()),
        (found(preparing=True), Begin()),
        (found(preparing=True, file=THIS), Resume(START, False)),
        (found(preparing=None, file=THIS), Resume(START, False)),
        (found(preparing=None, event=THIS), Resume(START, False)),
        (found(preparing=True, condition=ShutdownEvidence(START)), Resume(START, False)),
        (found(preparing=None, condition=ShutdownEvidence(START)), Resume(START, False)),
        (found(preparing=False, file=THIS), Cancelled(START)),
        (found(preparing=False, event=THIS), Cancelled(START)),
        (found(preparing=False, file=EARLIER), Rebooted(BEFORE, True)),
        (found(preparing=None, event=EARLIER), Rebooted(BEFORE, True)),
        (found(preparing=False, condition=ShutdownEvidence(BEFORE)), Rebooted(BEFORE, False)),
        (found(preparing=True, file=EARLIER), Begin(left_over=True)),
        (found(preparing=True, file=EARLIER, event=THIS), Resume(START, False)),
        (found(preparing=True, file=ShutdownEvidence(START, "this", complete=True)), Resume(START, True)),
        # A cancelled shutdown that is not finished is not resumed by another shutdown.
        (found(preparing=True, file=OVER), Begin(left_over=True)),
        (found(preparing=False, file=OVER), Cancelled(START)),
        (found(preparing=None, file=OVER), Cancelled(START)),
        # A time from before the boot does not matter where the boot is named: clocks may be wrong at boot.
        (found(preparing=True, file=ShutdownEvidence(BEFORE, "this")), Resume(BEFORE, False)),
        (found(preparing=None, file=ShutdownEvidence(BOOTED, "this")), Cancelled(BOOTED)),
        # Ten minutes after its time the shutdown counts as cancelled.
        (found(preparing=None, file=ShutdownEvidence(GIVEN_UP, "this")), Resume(GIVEN_UP, False)),
        (found(preparing=None, file=ShutdownEvidence(GIVEN_UP - SECOND, "this")), Cancelled(GIVEN_UP - SECOND)),
        (found(preparing=None, now=BOOTED, condition=ShutdownEvidence(BOOTED)), Resume(BOOTED, False)),
        # Of several sources the earliest start counts.
        (found(preparing=True, file=THIS, event=ShutdownEvidence(NOW, "this")), Resume(START, False)),
        (found(file=EARLIER, condition=ShutdownEvidence(BEFORE - SECOND)), Rebooted(BEFORE - SECOND, True)),
    ],
)
def test_what_a_starting_agent_does(facts: RecoveryFacts, recovery: Recovery) -> None:
    assert recover(facts) == recovery


evidence = st.none() | st.builds(
    ShutdownEvidence,
    st.sampled_from([START, BEFORE, BOOTED, NOW]),
    st.sampled_from(["", "this", "earlier"]),
    st.booleans(),
)


@given(evidence, evidence, evidence)
def test_a_machine_that_says_it_goes_down_is_never_taken_for_one_that_does_not(
    file: ShutdownEvidence | None, event: ShutdownEvidence | None, condition: ShutdownEvidence | None
) -> None:
    """Invariant 10."""
    recovery = recover(found(preparing=True, file=file, event=event, condition=condition))
    assert isinstance(recovery, Begin | Resume)


@given(evidence, evidence, evidence, st.sampled_from([True, None]))
def test_any_evidence_of_this_boot_resumes_the_shutdown(
    file: ShutdownEvidence | None,
    event: ShutdownEvidence | None,
    condition: ShutdownEvidence | None,
    preparing: bool | None,
) -> None:
    facts = found(preparing=preparing, file=file, event=event, condition=condition, now=START)
    if any(one.is_of_boot("this", BOOTED) for one in facts.evidence) and preparing:
        assert isinstance(recover(facts), Resume)
