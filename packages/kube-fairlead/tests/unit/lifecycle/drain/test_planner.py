"""The guarantees of `planning`, by number, for anything that may be seen on a node."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.core_v1 import Pod, PodPhase
from kube_fairlead.lifecycle.drain import filters
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Budgets, is_exempt
from kube_fairlead.lifecycle.drain.filters import PodDelete, PodDeleteAction
from kube_fairlead.lifecycle.drain.options import PROFILE, DrainOptions
from kube_fairlead.lifecycle.drain.planner import DrainPlan, plan
from tests.unit.lifecycle.drain.making import NOW, budget, pod

SECOND = dt.timedelta(seconds=1)


def planned(
    pods: list[Pod],
    attempts: dict[str, EvictionAttempt] | None = None,
    budgets: Budgets | None = None,
    options: DrainOptions = PROFILE,
    now: dt.datetime = NOW,
) -> DrainPlan:
    pod_deletes = [PodDelete(item, filters.delete_status(item, options, now)) for item in pods]
    return plan(pod_deletes, attempts or {}, budgets or Budgets(()), options, now)


def names(pods: Any) -> list[str]:
    return [item.name for item in pods]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Pod], dict[str, EvictionAttempt], Budgets, list[Any], DrainOptions]:
    apps = st.sampled_from(["a", "b", "c"])
    pods = [
        pod(
            f"p{number}",
            controller=draw(st.sampled_from(["none", "replicaset", "daemonset"])),
            phase=draw(st.sampled_from([PodPhase.RUNNING, PodPhase.PENDING, PodPhase.FAILED])),
            ready=draw(st.booleans()),
            emptydir=draw(st.booleans()),
            mirror=draw(st.integers(0, 9)) == 0,
            labels={"app": draw(apps)},
            priority=draw(st.sampled_from([None, 0, 10, 20])),
            deleted=draw(st.sampled_from([None, None, NOW - 10 * SECOND, NOW + 30 * SECOND])),
            grace=draw(st.sampled_from([0, 30])),
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    every = [
        budget(
            app,
            labels={"app": app},
            allowed=draw(st.integers(0, 3)),
            version=draw(st.sampled_from(["1", "2"])),
            observed=draw(st.sampled_from([0, 1])),
        )
        for app in ("a", "b")
    ]
    if draw(st.booleans()):
        every.append(budget("second", labels={"app": "b"}, allowed=5))
    budgets = Budgets(every)
    attempts = {
        item.uid: EvictionAttempt(
            cause=draw(st.sampled_from(list(Cause))),
            since=NOW - 60 * SECOND,
            retry_at=draw(st.sampled_from([None, NOW - SECOND, NOW + SECOND])),
            token=draw(st.sampled_from([frozenset(), budgets.covering(item).token])),
        )
        for item in pods
        if draw(st.booleans())
    }
    options = DrainOptions(
        force=draw(st.booleans()),
        ignore_daemonsets=draw(st.booleans()),
        delete_emptydir_data=draw(st.booleans()),
        grace_period=draw(st.sampled_from([-1, 0, 10, 60])),
        disable_eviction=draw(st.booleans()),
        skip_wait_for_delete_timeout=draw(st.sampled_from([0, 5, 100])),
        priority_groups=draw(st.sampled_from([(), (5,), (5, 15)])),
    )
    return pods, attempts, budgets, every, options


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_the_guarantees(world: tuple[list[Pod], dict[str, EvictionAttempt], Budgets, list[Any], DrainOptions]) -> None:
    pods, attempts, budgets, every, options = world
    made = planned(pods, attempts, budgets, options)
    actions = {item.uid: filters.delete_status(item, options, NOW).action for item in pods}
    causes = {uid: attempt.cause for uid, attempt in attempts.items()}

    for item in made.evict:  # 1
        assert actions[item.uid] is PodDeleteAction.DELETE
        assert causes.get(item.uid) not in {Cause.SENT, Cause.DENIED}
        if item.deleting:  # 2
            granted = item.metadata.deletion_grace_period_seconds
            assert options.grace_seconds is not None
            assert granted is not None
            assert options.grace_seconds < granted
    assert len({item.uid for item in made.evict}) == len(made.evict)

    if not options.disable_eviction:  # 3
        for one in every:
            spending = [
                item
                for item in made.evict
                if (cover := budgets.covering(item)).single is one
                and not is_exempt(item)
                # One that asks again because its time has come may find out.
                and not (item.uid in attempts and attempts[item.uid].token == cover.token)
            ]
            assert len(spending) <= one.status.disruptions_allowed
            probes = [
                item
                for item in made.evict
                if budgets.covering(item).single is one and causes.get(item.uid) is Cause.BUDGET
            ]
            assert len(probes) <= one.status.disruptions_allowed + 1 or any(is_exempt(item) for item in probes)

    if options.priority_groups and made.evict:  # 4
        ranks = [sum(start <= (item.spec.priority or 0) for start in options.priority_groups) for item in made.evict]
        left = [sum(start <= (i.spec.priority or 0) for start in options.priority_groups) for i in made.remaining]
        assert set(ranks) == {min(left)}

    assert made.recheck_at is None or made.recheck_at > NOW  # 5
    if not made.is_over:
        under_way = any(causes.get(item.uid) is Cause.SENT for item in made.remaining)
        waits_for_change = any(
            item.deleting or (item.uid in attempts and attempts[item.uid].retry_at is None) for item in made.remaining
        )
        probing = bool(made.evict or made.hold)
        waiting_behind_a_probe = any(causes.get(item.uid) is Cause.BUDGET for item in made.remaining)
        assert probing or under_way or made.recheck_at or waits_for_change or waiting_behind_a_probe
    assert {item.uid for item in made.evict} <= {item.uid for item in made.remaining}
    assert not {one.pod.uid for one in made.stranded} & {item.uid for item in made.remaining}


def test_all_pods_are_evicted_at_once() -> None:
    assert names(planned([pod("b"), pod("a")]).evict) == ["a", "b"]


def test_it_is_over_when_only_those_are_left_that_stay() -> None:
    made = planned([pod("a", controller="daemonset"), pod("b", mirror=True)])
    assert made.is_over
    assert made.stranded == ()


def test_what_may_not_go_is_stranded() -> None:
    made = planned([pod("a", controller="none")], options=DrainOptions())
    assert made.is_over
    assert [one.pod.name for one in made.stranded] == ["a"]


def test_a_budget_is_not_asked_for_more_than_it_has() -> None:
    budgets = Budgets([budget(labels={}, allowed=2)])
    made = planned([pod(name) for name in "abcd"], budgets=budgets)
    assert names(made.evict) == ["a", "b"]
    assert names(held.pod for held in made.hold) == ["c", "d"]


def test_an_unready_pod_is_evicted_whatever_its_budget() -> None:
    made = planned([pod("a", ready=False)], budgets=Budgets([budget(labels={}, allowed=0)]))
    assert names(made.evict) == ["a"]


def test_a_blocked_pod_wakes_when_its_budget_changes() -> None:
    before = Budgets([budget(labels={}, version="1")])
    item = pod("a")
    attempts = {
        item.uid: EvictionAttempt(
            cause=Cause.BUDGET, since=NOW, retry_at=NOW + 30 * SECOND, token=before.covering(item).token
        )
    }
    blocked = planned([item], attempts, before)
    assert blocked.evict == ()
    assert blocked.recheck_at == NOW + 30 * SECOND
    assert planned([item], attempts, Budgets([budget(labels={}, version="2")])).evict == ()
    assert names(planned([item], attempts, Budgets([budget(labels={}, version="2", allowed=1)])).evict) == ["a"]
    assert names(planned([item], attempts, Budgets(())).evict) == ["a"]


def test_one_pod_of_a_budget_finds_out_for_all() -> None:
    budgets = Budgets([budget(labels={})])
    pods = [pod(name) for name in "abc"]
    token = budgets.covering(pods[0]).token
    attempts = {item.uid: EvictionAttempt(cause=Cause.BUDGET, since=NOW, retry_at=NOW, token=token) for item in pods}
    made = planned(pods, attempts, budgets)
    assert names(made.evict) == ["a"]


def test_what_one_pod_found_out_of_a_budget_counts_for_the_others_too() -> None:
    """The second was answered just now, so the first, whose time has come, need not ask the same again."""
    budgets = Budgets([budget(labels={})])
    first, second = pod("a"), pod("b")
    token = budgets.covering(first).token
    attempts = {
        first.uid: EvictionAttempt(cause=Cause.BUDGET, since=NOW, number=1, retry_at=NOW, token=token),
        second.uid: EvictionAttempt(cause=Cause.BUDGET, since=NOW, number=1, retry_at=NOW + 5 * SECOND, token=token),
    }
    made = planned([first, second], attempts, budgets)
    assert made.evict == ()
    assert made.recheck_at == NOW + 5 * SECOND
    assert names(planned([first, second], attempts, budgets, now=NOW + 5 * SECOND).evict) == ["a"]


def test_two_budgets_are_the_servers_to_refuse() -> None:
    budgets = Budgets([budget("x", labels={}, allowed=1), budget("y", labels={})])
    assert names(planned([pod("a")], budgets=budgets).evict) == ["a"]


def test_deletion_asks_no_budget() -> None:
    made = planned([pod("a")], budgets=Budgets([budget(labels={})]), options=DrainOptions(disable_eviction=True))
    assert names(made.evict) == ["a"]


def test_a_pod_on_its_way_out_is_only_waited_for() -> None:
    item = pod("a", deleted=NOW + 30 * SECOND, grace=30)
    made = planned([item])
    assert made.evict == ()
    assert made.recheck_at == NOW + 35 * SECOND


def test_a_shorter_grace_is_asked_for_once() -> None:
    options = DrainOptions(grace_period=5)
    assert names(planned([pod("a", deleted=NOW + 30 * SECOND, grace=30)], options=options).evict) == ["a"]
    assert planned([pod("a", deleted=NOW + 5 * SECOND, grace=5)], options=options).evict == ()


def test_lower_groups_go_first() -> None:
    options = DrainOptions(priority_groups=(0, 100))
    pods = [pod("high", priority=100), pod("low", priority=5), pod("none")]
    assert names(planned(pods, options=options).evict) == ["low", "none"]
    ending = pod("low", priority=5, deleted=NOW + SECOND, grace=1)
    assert planned([pods[0], ending], options=options).evict == ()
    assert names(planned([pods[0]], options=options).evict) == ["high"]


def test_looks_again_when_a_deleted_pod_is_waited_for_no_more() -> None:
    options = DrainOptions(skip_wait_for_delete_timeout=60)
    item = pod("a", deleted=NOW - 10 * SECOND, grace=1, finalizers=("x/y",))
    made = planned([item], options=options)
    assert made.recheck_at == NOW + 51 * SECOND
    assert planned([item], options=options, now=NOW + 51 * SECOND).is_over


def test_looks_again_at_the_first_of_several_moments_and_never_at_this_very_one() -> None:
    soon, late = pod("a", deleted=NOW + 3 * SECOND, grace=3), pod("b", deleted=NOW + 30 * SECOND, grace=30)
    assert planned([late, soon]).recheck_at == NOW + 8 * SECOND
    assert planned([soon], now=NOW + 8 * SECOND).recheck_at is None


def test_a_request_is_looked_at_when_its_time_has_come() -> None:
    item = pod("a")
    attempts = {item.uid: EvictionAttempt(cause=Cause.REQUESTED, since=NOW, retry_at=NOW + 5 * SECOND)}
    assert planned([item], attempts, now=NOW + 4 * SECOND).evict == ()
    assert names(planned([item], attempts, now=NOW + 5 * SECOND).evict) == ["a"]


def test_without_a_priority_a_pod_is_in_the_group_of_zero() -> None:
    options = DrainOptions(priority_groups=(0, 1))
    assert names(planned([pod("none"), pod("one", priority=1)], options=options).evict) == ["none"]
    assert names(planned([pod("below", priority=-1), pod("none")], options=options).evict) == ["below"]


@pytest.mark.parametrize(
    ("item", "exempt"),
    [
        (pod(), False),
        (pod(ready=False), True),
        (pod(deleted=NOW, grace=1), True),
        (pod(phase=PodPhase.PENDING), True),
        (pod(phase=PodPhase.SUCCEEDED), True),
    ],
)
def test_which_pods_no_budget_concerns(item: Pod, exempt: bool) -> None:
    assert is_exempt(item) is exempt
