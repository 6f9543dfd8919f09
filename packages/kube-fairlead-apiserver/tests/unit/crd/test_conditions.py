from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead_apiserver.crd import conditions

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(hours=1)


def test_a_conditions_time_moves_only_with_its_status() -> None:
    crd: dict[str, Any] = {}
    assert conditions.set_condition(crd, conditions.condition("A", "True", "R", "m"), NOW)
    assert not conditions.set_condition(crd, conditions.condition("A", "True", "R", "m"), LATER)
    assert conditions.set_condition(crd, conditions.condition("A", "True", "R2", "m"), LATER)
    found = conditions.find_condition(crd, "A")
    assert found is not None
    assert found["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    conditions.set_condition(crd, conditions.condition("A", "False", "R2", "m"), LATER)
    assert found["lastTransitionTime"] == "2026-01-01T01:00:00Z"
    assert conditions.find_condition(crd, "B") is None


def test_the_first_delete_marks_the_crd_and_holds_it() -> None:
    crd: dict[str, Any] = {"metadata": {"name": "x"}, "status": {"conditions": None}}
    assert conditions.find_condition(crd, "Terminating") is None
    conditions.mark_for_deletion(crd, NOW)
    conditions.mark_for_deletion(crd, LATER)
    assert crd["metadata"] == {
        "name": "x",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
    }
    terminating = conditions.find_condition(crd, "Terminating")
    assert terminating is not None
    assert (terminating["status"], terminating["reason"]) == ("True", "InstanceDeletionPending")


def test_terminating_reasons_carry_their_error() -> None:
    assert conditions.terminating_condition("InstanceDeletionFailed", "boom")["message"] == (
        "could not issue all deletes: boom"
    )
    assert conditions.terminating_condition("InstanceDeletionCompleted") == {
        "type": "Terminating",
        "status": "False",
        "reason": "InstanceDeletionCompleted",
        "message": "removed all instances",
    }


@pytest.mark.parametrize(
    ("annotation", "status", "reason", "message"),
    [
        ("https://github.com/x/y/pull/1", "True", "ApprovedAnnotation", "approved in https://github.com/x/y/pull/1"),
        (
            "unapproved, experimental-only",
            "False",
            "UnapprovedAnnotation",
            'not approved: "unapproved, experimental-only"',
        ),
        (
            None,
            "False",
            "MissingAnnotation",
            (
                'protected groups must have approval annotation "api-approved.kubernetes.io", '
                "see https://github.com/kubernetes/enhancements/pull/1111"
            ),
        ),
        (
            "because",
            "False",
            "InvalidAnnotation",
            (
                'protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a '
                'reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
            ),
        ),
    ],
)
def test_a_protected_group_needs_an_approval(annotation: str | None, status: str, reason: str, message: str) -> None:
    annotations = {} if annotation is None else {"api-approved.kubernetes.io": annotation}
    crd = {"metadata": {"annotations": annotations}, "spec": {"group": "lifecycle.k8s.io"}}
    assert conditions.approval_condition(crd) == {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": status,
        "reason": reason,
        "message": message,
    }


@pytest.mark.parametrize(
    ("group", "protected"),
    [("k8s.io", True), ("a.k8s.io", True), ("x.kubernetes.io", True), ("notk8s.io", False), ("example.com", False)],
)
def test_community_groups_are_protected(group: str, protected: bool) -> None:
    assert conditions.is_protected_group(group) is protected
    if not protected:
        assert conditions.approval_condition({"metadata": {}, "spec": {"group": group}}) is None
