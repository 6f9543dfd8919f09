"""The rules, one by one. Each case names client-go's rule where there is one (tools/leaderelection)."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from kube_fairlead.election.election_record import LeaderElectionRecord, Timing
from kube_fairlead.election.lease import Answer, Candidacy, Claim, Lost, Read, Renew, Step, WaitUntil, YieldTo, is_newer

WALL = dt.datetime(2026, 7, 1, 12, 0, 0, tzinfo=dt.UTC)
THEN = WALL - dt.timedelta(hours=1)
MINE = LeaderElectionRecord(holder="me", lease_duration_seconds=15, acquire_time=THEN, renew_time=THEN, transitions=2)
THEIRS = LeaderElectionRecord(
    holder="other", lease_duration_seconds=30, acquire_time=THEN, renew_time=THEN, transitions=2
)
FREE = LeaderElectionRecord(holder="", lease_duration_seconds=1, acquire_time=THEN, renew_time=THEN, transitions=2)


def me() -> Candidacy:
    return Candidacy(identity="me", timing=Timing())


def leader(sent: float = 100.0) -> Candidacy:
    return me().sent(sent).stored(MINE, "7", sent)


def step(candidacy: Candidacy, now: float) -> Step:
    return candidacy.next_step(now, WALL)


def test_a_candidate_needs_an_identity() -> None:
    with pytest.raises(ValueError, match="identity"):
        Candidacy(identity="", timing=Timing())


class TestFollower:
    def test_who_knows_nothing_reads(self) -> None:
        assert step(me(), 100) == Read()

    def test_a_missing_lease_is_created_with_no_transitions(self) -> None:
        claim = step(me().seen(None, "", 100), 100)
        expected = LeaderElectionRecord(
            holder="me", lease_duration_seconds=15, acquire_time=WALL, renew_time=WALL, transitions=0
        )
        assert claim == Claim(expected, "", contested=True)

    def test_a_released_lease_is_claimed_at_once(self) -> None:
        claim = step(me().seen(FREE, "7", 100), 100)
        assert isinstance(claim, Claim)
        assert claim.record == FREE.taken_by("me", Timing(), WALL)
        assert claim.resource_version == "7"
        assert claim.record.transitions == 3

    @pytest.mark.parametrize(("now", "free"), [(100, False), (129.999, False), (130, True), (500, True)])
    def test_anothers_lease_lasts_as_long_as_it_says_from_when_it_was_seen(self, now: float, free: bool) -> None:
        follower = me().seen(THEIRS, "7", 100)
        if free:
            assert step(follower, now) == Claim(THEIRS.taken_by("me", Timing(), WALL), "7", contested=True)
        else:
            assert step(follower, now) == WaitUntil(130)

    def test_the_lease_of_a_holder_that_is_known_to_have_ended_is_claimed_at_once(self) -> None:
        heir = Candidacy(identity="me", timing=Timing(), succeeds="other")
        assert step(heir.seen(THEIRS, "7", 100), 100) == Claim(
            THEIRS.taken_by("me", Timing(), WALL), "7", contested=True
        )
        stranger = Candidacy(identity="me", timing=Timing(), succeeds="another")
        assert step(stranger.seen(THEIRS, "7", 100), 100) == WaitUntil(130)

    @pytest.mark.parametrize(
        ("succeeds", "holder", "has_ended"),
        [
            ("agent-1", "agent-1", True),
            ("agent-1", "agent-1-twin", False),
            ("agent-1", "agent-10", False),
            ("agent-10", "agent-1", False),
            ("claimer_", "claimer_8f3a", True),
            ("claimer_", "claimers_8f3a", False),
        ],
    )
    def test_a_name_that_only_begins_like_that_of_the_ended_holder_is_another_process(
        self, succeeds: str, holder: str, has_ended: bool
    ) -> None:
        """Found by the simulation (seed 2004): an agent took the Lease from a second one that was still at work."""
        record = dataclasses.replace(THEIRS, holder=holder)
        heir = Candidacy(identity="me", timing=Timing(), succeeds=succeeds).seen(record, "7", 100)
        assert isinstance(step(heir, 100), Claim if has_ended else WaitUntil)

    def test_times_of_other_machines_decide_nothing(self) -> None:
        future = LeaderElectionRecord(holder="other", lease_duration_seconds=30, renew_time=WALL + dt.timedelta(days=9))
        past = LeaderElectionRecord(holder="other", lease_duration_seconds=30, renew_time=WALL - dt.timedelta(days=9))
        assert step(me().seen(future, "7", 100), 101) == step(me().seen(past, "7", 100), 101) == WaitUntil(130)

    def test_a_renewal_starts_the_time_anew(self) -> None:
        follower = me().seen(THEIRS, "7", 100).seen(THEIRS.renewed(Timing(), WALL), "8", 120)
        assert step(follower, 131) == WaitUntil(135)  # the renewal says 15 s

    def test_a_label_is_no_renewal_but_its_version_counts(self) -> None:
        follower = me().seen(THEIRS, "7", 100).seen(THEIRS, "8", 120)
        assert step(follower, 129) == WaitUntil(130)
        claim = step(follower, 130)
        assert isinstance(claim, Claim)
        assert claim.resource_version == "8"

    def test_a_lease_without_duration_is_free(self) -> None:
        assert isinstance(step(me().seen(LeaderElectionRecord(holder="other"), "7", 100), 100), Claim)

    def test_a_lease_deleted_under_its_holder_lasts_as_long_as_it_would_have(self) -> None:
        follower = me().seen(THEIRS, "7", 100).seen(None, "8", 110)
        assert step(follower, 120) == WaitUntil(130)
        assert isinstance(step(follower, 130), Claim)

    def test_ones_own_lease_is_taken_up_again(self) -> None:
        """A claim whose answer was lost: client-go renews it as a leader would."""
        follower = me().sent(99, record=MINE).seen(MINE, "7", 100)
        assert step(follower, 100) == Claim(MINE.renewed(Timing(), WALL), "7", contested=False)

    def test_a_lease_under_ones_name_that_one_did_not_write_is_anothers(self) -> None:
        follower = me().seen(MINE, "7", 100)
        assert step(follower, 100) == WaitUntil(115)
        assert not follower.has_rival  # it may be from before a restart
        assert isinstance(step(follower, 115), Claim)

    def test_another_process_that_renews_under_ones_name_is_noticed(self) -> None:
        follower = me().seen(MINE, "7", 100).seen(MINE.renewed(Timing(), WALL), "8", 102)
        assert follower.has_rival
        assert step(follower, 115) == WaitUntil(117)

    def test_who_knows_that_its_earlier_self_has_ended_does_not_wait(self) -> None:
        resumed = Candidacy(identity="me", timing=Timing(), succeeds="me").seen(MINE, "7", 100)
        assert isinstance(step(resumed, 100), Claim)
        fought = resumed.seen(MINE.renewed(Timing(), WALL), "8", 101)  # it has not ended after all
        assert (fought.has_rival, step(fought, 101)) == (True, WaitUntil(116))

    def test_after_an_unanswered_claim_the_lease_is_read_and_its_time_goes_on(self) -> None:
        follower = me().seen(THEIRS, "7", 100).sent(130).doubted()
        assert step(follower, 131) == Read()
        assert isinstance(step(follower.seen(THEIRS, "7", 132), 132), Claim)

    def test_what_one_gave_up_is_left_to_others_for_a_while(self) -> None:
        gave_up = leader(100).seen(FREE, "8", 103).ended(103, hold_off=True)
        assert step(gave_up, 104) == WaitUntil(109)  # 3 retry periods
        assert isinstance(step(gave_up, 109), Claim)

    def test_what_one_gave_up_without_giving_it_back_is_left_to_others_once_it_has_run_out(self) -> None:
        gave_up = leader(100).ended(103, hold_off=True)
        assert step(gave_up, 104) == WaitUntil(121)  # renewed at 100 for 15 s, and 3 retry periods
        assert isinstance(step(gave_up, 121), Claim)

    def test_once_others_led_there_is_nothing_to_leave_to_them(self) -> None:
        gave_up = leader(100).seen(FREE, "8", 103).ended(103, hold_off=True)
        again = gave_up.seen(THEIRS, "9", 103.5).seen(FREE, "10", 104)
        assert isinstance(step(again, 104), Claim)

    @pytest.mark.parametrize(
        ("preferred", "ready", "strategy", "waits_until", "contested"),
        [
            ("", "", "", 100, True),
            ("me", "", "example.com/x", 100, False),
            ("third", "", "example.com/x", 100, True),  # nothing says that it is alive
            ("third", "third", "example.com/x", 106, True),
            ("third", "third", "", 106, True),
            ("third", "", "", 100, True),
            ("", "", "example.com/x", 100, True),
            ("", "", "OldestEmulationVersion", 115, True),
            ("third", "", "OldestEmulationVersion", 115, True),
        ],
    )
    def test_the_preferred_holder_and_the_api_servers_choice_come_first(
        self, preferred: str, ready: str, strategy: str, waits_until: float, contested: bool
    ) -> None:
        free = LeaderElectionRecord(
            lease_duration_seconds=1, preferred_holder=preferred, strategy=strategy, ready=ready
        )
        follower = me().seen(free, "7", 100)
        if waits_until > 100:
            assert step(follower, 100) == WaitUntil(waits_until)
        claim = step(follower, waits_until)
        assert isinstance(claim, Claim)
        assert claim.contested is contested
        assert claim.record.preferred_holder == ""
        assert claim.record.strategy == strategy

    def test_the_preferred_holder_answers_that_it_is_alive(self) -> None:
        asked = dataclasses.replace(THEIRS, preferred_holder="me")
        follower = me().seen(THEIRS, "7", 100).seen(asked, "8", 110)
        answered = dataclasses.replace(asked, ready="me")
        assert step(follower, 110) == Answer(answered)
        assert step(follower.seen(answered, "9", 111), 111) == WaitUntil(130), "an answer is no renewal"


class TestLeader:
    def test_it_renews_every_retry_period(self) -> None:
        assert step(leader(100), 101.9) == WaitUntil(102)
        assert step(leader(100), 102) == Renew(MINE.renewed(Timing(), WALL), "7")

    def test_renewals_can_come_a_little_early(self) -> None:
        assert step(leader(100).sent(102, jitter=0.1), 103) == WaitUntil(103.8)

    def test_its_lease_is_as_old_as_its_last_successful_renewal_was_sent(self) -> None:
        candidacy = leader(100).sent(102).stored(MINE, "8", 102)
        assert candidacy.valid_until == 112
        assert candidacy.exit_by == 116

    def test_a_failed_renewal_is_repeated_after_the_retry_period(self) -> None:
        trying = leader(100).sent(102)
        assert step(trying, 103) == WaitUntil(104)
        assert step(trying, 104) == Renew(MINE.renewed(Timing(), WALL), "7")

    def test_it_gives_up_at_the_renew_deadline_whatever_the_lease_says(self) -> None:
        assert step(leader(100).sent(108), 109.9) == WaitUntil(110)
        assert step(leader(100).sent(108), 110) == Lost("the lease was not renewed within 10 s")

    def test_a_lease_that_others_hold_is_lost(self) -> None:
        assert step(leader().seen(THEIRS, "8", 101), 101) == Lost("the lease is held by other")

    def test_a_lease_that_others_cleared_is_lost(self) -> None:
        assert step(leader().seen(FREE, "8", 101), 101) == Lost("the lease was taken away")

    def test_a_deleted_lease_is_made_again_at_once(self) -> None:
        renewal = step(leader().seen(None, "8", 101), 101)
        assert isinstance(renewal, Renew)
        assert renewal.resource_version == ""
        assert renewal.record.holder == "me"

    def test_a_refused_renewal_is_looked_into_at_once_and_repeated(self) -> None:
        refused = leader(100).sent(102).refuted()
        assert step(refused, 102) == Read()
        labelled = refused.sent(102).seen(MINE, "9", 102)
        assert step(labelled, 102) == Renew(MINE.renewed(Timing(), WALL), "9")

    def test_a_look_that_fails_is_repeated_after_the_retry_period(self) -> None:
        looking = leader(100).sent(102).refuted().sent(102)
        assert step(looking, 103) == WaitUntil(104)
        assert step(looking, 104) == Read()

    def test_it_yields_to_the_preferred_holder_once(self) -> None:
        preferred = dataclasses.replace(MINE, preferred_holder="x", ready="x", strategy="example.com/y")
        asked = leader(100).seen(preferred, "8", 101)
        assert step(asked, 101) == YieldTo("x")
        going = asked.asked_to_step_down()
        renewal = step(going, 102)
        assert isinstance(renewal, Renew)
        assert renewal.record.preferred_holder == "x"

    def test_a_preferred_holder_that_does_not_answer_is_not_yielded_to(self) -> None:
        asked = leader(100).seen(dataclasses.replace(MINE, preferred_holder="x"), "8", 101)
        renewal = step(asked, 101)
        assert isinstance(renewal, Renew)
        assert renewal.record.preferred_holder == "x"
        later = asked.sent(106).stored(renewal.record, "9", 106)
        assert (later.unanswered(106.9), later.unanswered(107)) == ("", "x")
        renewal = step(later, 108)
        assert isinstance(renewal, Renew)
        assert renewal.record.preferred_holder == ""

    def test_the_api_servers_choice_needs_no_answer(self) -> None:
        chosen = dataclasses.replace(MINE, preferred_holder="x", strategy="OldestEmulationVersion")
        assert step(leader(100).seen(chosen, "8", 101), 101) == YieldTo("x")

    def test_a_leader_whose_identity_another_process_uses_has_lost(self) -> None:
        rivalled = leader().seen(MINE.renewed(Timing(), WALL), "8", 101)
        assert step(rivalled, 101) == Lost("another process uses the identity me")
        assert rivalled.has_rival
        assert not rivalled.holds

    def test_a_renewal_whose_answer_was_lost_is_its_own(self) -> None:
        renewal = MINE.renewed(Timing(), WALL)
        sent = leader(100).sent(102, record=renewal).seen(renewal, "8", 103)
        assert isinstance(step(sent, 103), Renew)
        assert not sent.has_rival

    def test_a_late_write_is_its_own_however_often_it_tries(self) -> None:
        timing = Timing(lease_duration_seconds=15, renew_deadline_seconds=10, retry_period_seconds=0.1)
        leads = Candidacy(identity="me", timing=timing).sent(100).stored(MINE, "7", 100)
        sent = [MINE.renewed(timing, WALL + dt.timedelta(seconds=number / 10)) for number in range(90)]
        for number, renewal in enumerate(sent):
            leads = leads.sent(100.1 + number / 10, record=renewal)
        for late in (sent[0], sent[50], sent[-1]):
            assert not leads.seen(late, "8", 109.5).has_rival
        assert leads.seen(MINE.renewed(timing, WALL - dt.timedelta(seconds=1)), "8", 109.5).has_rival

    def test_writes_of_long_ago_are_forgotten(self) -> None:
        leads = leader(100)
        for number in range(10_000):
            leads = leads.sent(100 + number, record=MINE.renewed(Timing(), WALL + dt.timedelta(seconds=number)))
        assert len(leads.written) <= 17

    def test_being_preferred_oneself_is_no_reason_to_go(self) -> None:
        preferred = dataclasses.replace(MINE, preferred_holder="me", strategy="example.com/y")
        assert isinstance(step(leader(100).seen(preferred, "8", 101), 101), Renew)

    def test_an_answer_that_was_overtaken_does_not_hide_what_came_after(self) -> None:
        overtaken = leader(100).sent(102).seen(THEIRS, "9", 103).stored(MINE, "8", 102)
        assert step(overtaken, 103) == Lost("the lease is held by other")


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("a", "b", True), ("a", "a", False), ("5", "", True)],
)
def test_versions_are_compared_as_numbers(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer
