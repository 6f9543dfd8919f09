"""What is said about a drain: blockers, cordons, causes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import NodeCondition, NodeStatus, Pod
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY
from kube_fairlead.client import errors as client_errors
from kube_fairlead.lifecycle.drain import attempts, blockers, cordons, filters, planner, rollout
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Budgets
from kube_fairlead.lifecycle.drain.filters import PodDelete
from kube_fairlead.lifecycle.drain.options import PROFILE, DrainOptions
from tests.unit.lifecycle.drain.making import NOW, budget, node, pod

SINCE = NOW - dt.timedelta(minutes=3)


def described(
    pods: list[Pod],
    known: dict[str, EvictionAttempt],
    budgets: Budgets,
    options: DrainOptions = PROFILE,
    *,
    without_report: bool = False,
) -> str:
    pod_deletes = [PodDelete(item, filters.delete_status(item, options, NOW)) for item in pods]
    made = planner.plan(pod_deletes, known, budgets, options, NOW)
    here = node(cordoned=True)
    if without_report:
        condition = NodeCondition(type="Ready", status="Unknown", last_transition_time=SINCE)
        here = wire.replace(here, status=NodeStatus(conditions=(condition,)))
    return blockers.describe(made, known, budgets, here, NOW)


def test_which_budget_blocks_which_pod_since_when() -> None:
    budgets = Budgets([budget("web", labels={}, desired_healthy=3, current_healthy=3)])
    item = pod("web-1")
    held = EvictionAttempt(cause=Cause.BUDGET, since=SINCE, message=blockers.budget_message(budgets.covering(item)))
    assert described([item], {item.uid: held}, budgets) == (
        "blocked: shop/web-1 by budget shop/web (The disruption budget web needs 3 healthy pods and has 3 currently)"
        " since 2026-03-01T11:57:00Z"
    )


def test_two_budgets() -> None:
    budgets = Budgets([budget("x", labels={}), budget("y", labels={})])
    item = pod("p")
    described_pods = described(
        [item], {item.uid: EvictionAttempt(cause=Cause.TROUBLE, since=SINCE, message="No.")}, budgets
    )
    assert described_pods == "blocked: shop/p by 2 budgets at once, shop/x, shop/y (No) since 2026-03-01T11:57:00Z"


@pytest.mark.parametrize(
    ("known", "counted"),
    [
        (None, None),
        (EvictionAttempt(cause=Cause.ACCEPTED, since=SINCE), None),
        (EvictionAttempt(cause=Cause.REQUESTED, since=SINCE), None),
        (EvictionAttempt(cause=Cause.SENT, since=SINCE), None),
        (EvictionAttempt(cause=Cause.SENT, since=SINCE, before=Cause.BUDGET), "budget"),
        (EvictionAttempt(cause=Cause.SENT, since=SINCE, before=Cause.ACCEPTED), None),
        (EvictionAttempt(cause=Cause.BUDGET, since=SINCE), "budget"),
        (EvictionAttempt(cause=Cause.NAMESPACE, since=SINCE), "namespace"),
        (EvictionAttempt(cause=Cause.TROUBLE, since=SINCE), "trouble"),
        (EvictionAttempt(cause=Cause.DENIED, since=SINCE), "denied"),
    ],
)
def test_what_blocks_as_metrics_count_it(known: EvictionAttempt | None, counted: str | None) -> None:
    found = blockers.blocker(pod(), known, Budgets([]), NOW)
    assert (found.value if found else None) == counted


def test_pods_are_counted_by_what_blocks_them() -> None:
    late, ending, bare = (
        pod("late", deleted=SINCE, grace=0),
        pod("e", deleted=NOW, grace=0),
        pod("b", controller="none"),
    )
    twice = pod("twice", labels={"app": "x"})
    budgets = Budgets([budget("x", labels={"app": "x"}), budget("y", labels={"app": "x"})])
    options = DrainOptions(force=False)
    pod_deletes = [PodDelete(item, filters.delete_status(item, options, NOW)) for item in (late, ending, bare, twice)]
    known = {twice.uid: EvictionAttempt(cause=Cause.TROUBLE, since=SINCE)}
    made = planner.plan(pod_deletes, known, budgets, options, NOW)
    found = blockers.blockers(made, known, budgets, NOW)
    assert {blocker.value: count for blocker, count in found.items()} == {
        "overdue": 1,
        "filter": 1,
        "several_budgets": 1,
    }


def test_a_stuck_pod_and_why() -> None:
    item = pod("p", deleted=SINCE, grace=0, finalizers=("example.com/held",))
    assert described([item], {}, Budgets(()), without_report=True) == (
        "blocked: shop/p should have ended by 2026-03-01T11:57:00Z; finalizers example.com/held;"
        " its kubelet has not reported since 2026-03-01T11:57:00Z"
    )


def test_those_that_are_ending_are_named() -> None:
    later = NOW + dt.timedelta(seconds=10)
    assert described([pod("p", deleted=later, grace=30)], {}, Budgets(())) == "ending: shop/p"


def test_many_are_counted() -> None:
    described_pods = described(
        [pod(f"p{n:02}", deleted=NOW, grace=30) for n in range(12)],
        {},
        Budgets(()),
    )
    assert described_pods.endswith("shop/p09, and 2 more")


def test_what_is_left_when_it_fails() -> None:
    item = pod("p", controller="none")
    pod_deletes = PodDelete(item, filters.delete_status(item, DrainOptions(), NOW))
    assert blockers.failure([pod_deletes], {}) == (
        "pods are left on the node: shop/p (Pods that declare no controller (use --force to override))"
    )
    denied = PodDelete(pod("q"), filters.delete_status(pod("q"), DrainOptions(), NOW))
    known = {denied.pod.uid: EvictionAttempt(cause=Cause.DENIED, since=NOW, message="not allowed")}
    assert blockers.failure([denied], known) == "pods are left on the node: shop/q (not allowed)"


BUDGET = [{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1"}]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (api_errors.TooManyRequests("no", details={"causes": BUDGET}), Cause.BUDGET),
        (api_errors.TooManyRequests("busy"), Cause.TROUBLE),
        (api_errors.InternalError("two budgets"), Cause.TROUBLE),
        (api_errors.ServiceUnavailable("webhook down"), Cause.TROUBLE),
        (api_errors.Conflict("uid"), Cause.TROUBLE),
        (
            api_errors.Forbidden("ns", details={"causes": [{"reason": "NamespaceTerminating"}]}),
            Cause.NAMESPACE,
        ),
        (api_errors.Forbidden("rbac"), Cause.DENIED),
        (api_errors.Unauthorized("the token has run out"), Cause.TROUBLE),
        (api_errors.BadRequest("denied by a webhook"), Cause.DENIED),
        (client_errors.ConnectionBroken("cut"), Cause.TROUBLE),
    ],
)
def test_what_an_answer_means(error: Exception, cause: Cause) -> None:
    assert attempts.cause_of(error) is cause


def test_the_message_of_a_budget_is_reported() -> None:
    error = api_errors.TooManyRequests("Cannot evict pod", details={"causes": BUDGET})
    assert attempts.explain(error) == "The disruption budget b needs 1"


def test_our_own_cordon() -> None:
    patch = cordons.cordon(node(), "drain-n")
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "uid": "node-uid",
            "annotations": {ANNOTATION_CORDONED_BY: "drain-n"},
        },
        "spec": {"unschedulable": True},
    }
    ours = node(cordoned=True, annotations={ANNOTATION_CORDONED_BY: "drain-n"})
    assert cordons.cordon(ours, "other") is None
    assert not cordons.foreign_cordon(ours)
    undone = cordons.uncordon(ours)
    assert undone is not None
    assert undone["spec"] == {"unschedulable": None}


def test_another_clients_cordon() -> None:
    theirs = node(cordoned=True)
    assert cordons.cordon(theirs, "drain-n") is None
    assert cordons.foreign_cordon(theirs)
    assert "fairlead uncordon n --force" in cordons.refusal(theirs)


BIT: dict[str, Any] = {"f:spec": {"f:unschedulable": {}}}
MARK: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, f"f:{ANNOTATION_CORDONED_BY}": {}}}}
OTHER: dict[str, Any] = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:status": {}}


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ((BIT | MARK,), True),
        ((OTHER, BIT | MARK), True),
        ((OTHER, MARK, BIT), False),  # uncordoned, and cordoned by another client
        ((BIT | MARK, BIT), True),  # another client applied the same value
        ((OTHER, MARK), True),  # the books are incomplete: the mark counts
        ((), True),
    ],
)
def test_a_cordon_belongs_to_the_writer_of_field_and_annotation(
    written: tuple[dict[str, Any], ...], ours: bool
) -> None:
    marked = node(cordoned=True, annotations={ANNOTATION_CORDONED_BY: "drain-n"}, written=written)
    assert cordons.owner(marked) == ("drain-n" if ours else "")
    assert cordons.foreign_cordon(marked) is not ours


def test_a_stale_annotation_is_removed_without_a_cordon() -> None:
    mark = {ANNOTATION_CORDONED_BY: "drain-n"}
    assert cordons.clear_annotation(node()) is None
    assert cordons.clear_annotation(node(cordoned=True, annotations=mark)) is None
    assert cordons.clear_annotation(node(annotations=mark)) == {
        "metadata": {"resourceVersion": "7", "uid": "node-uid", "annotations": {ANNOTATION_CORDONED_BY: None}}
    }


def test_nothing_to_undo() -> None:
    assert cordons.uncordon(node()) is None
    stale = cordons.uncordon(node(annotations={ANNOTATION_CORDONED_BY: "drain-n"}))
    assert stale is not None


def test_rollout() -> None:
    zones = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "x": "", "y": ""}
    waiting = ["a1", "a2", "b1", "b2", "x", "y"]
    limit = rollout.Limits
    assert rollout.startable(waiting, [], zones, limit()) == ("a1",)
    assert rollout.startable(waiting, ["a1"], zones, limit()) == ()
    assert rollout.startable(waiting, [], zones, limit(max_unavailable=9, per_zone=1)) == ("a1", "b1", "x")
    assert rollout.startable(waiting[1:], ["a1"], zones, limit(max_unavailable=3, per_zone=1)) == ("b1", "x")
