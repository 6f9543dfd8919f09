"""Each check on plain facts: what is found, and that nothing is found where nothing is wrong."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api.apps_v1 import DaemonSet, DaemonSetSpec
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Node, NodeCondition, NodeStatus, PodSpec, PodTemplateSpec
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE
from kube_fairlead.base.certificates import Validity
from kube_fairlead.doctor import collector
from kube_fairlead.doctor.checks import CHECKS, examine
from kube_fairlead.doctor.facts import Facts, Finding, Hook, Read, Severity
from kube_fairlead.install import installation
from kube_fairlead.lifecycle import offers
from kube_fairlead.webhook.manifests import DELETION_REGISTRATION, EVICTION_REGISTRATION

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
KINDS = frozenset({"lifecycleevents", "lifecycletransitions", "nodelifecyclerecords"})
VALID = (Validity(NOW - 100 * DAY, NOW + 265 * DAY),)


def hook(registration: str, policy: str, **other: Any) -> Hook:
    return Hook(
        **{
            "registration": registration,
            "failure_policy": policy,
            "service": "fairlead-system/fairlead-webhook",
            "has_bundle": True,
            "authorities": Read(VALID),
            "service_exists": Read(True),
            "ready_endpoints": Read(2),
            "secret": "fairlead-system/fairlead-webhook-certificates",
            "serving": Read((Validity(NOW - 10 * DAY, NOW + 20 * DAY),)),
            **other,
        }
    )


def node(name: str, *, ready: str = "True", uid: str = "u", created: dt.datetime = NOW - HOUR) -> Node:
    conditions = (NodeCondition(type="Ready", status=ready),)
    metadata = ObjectMeta(name=name, uid=uid, labels={"kubernetes.io/os": "linux"}, creation_timestamp=created)
    return Node(metadata=metadata, status=NodeStatus(conditions=conditions))


def lease(name: str, *, age: dt.timedelta, holder: str = "agent-a") -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=40, renew_time=NOW - age)
    return Lease(metadata=ObjectMeta(name=name), spec=spec)


def transition(name: str, *, offered: dt.timedelta | None, driver: str = "example.com/d") -> LifecycleTransition:
    marks = {} if offered is None else offers.published_annotations(driver, NOW - offered)
    spec = LifecycleTransitionSpec(start="A", end="B", driver=driver, all_nodes=True)
    return LifecycleTransition(metadata=ObjectMeta(name=name, annotations=marks), spec=spec)


def event(name: str, node_name: str = "node-1", *, finalizers: tuple[str, ...] = (), **status: Any) -> LifecycleEvent:
    deleted = status.pop("deleted", None)
    metadata = ObjectMeta(
        name=name, creation_timestamp=NOW - 2 * HOUR, finalizers=finalizers, deletion_timestamp=deleted
    )
    spec = LifecycleEventSpec(transition_name="t", binding_node=node_name)
    return LifecycleEvent(metadata=metadata, spec=spec, status=LifecycleEventStatus(**status))


AGENTS = DaemonSet(
    metadata=ObjectMeta(name="fairlead-agent", namespace="fairlead-system"),
    spec=DaemonSetSpec(template=PodTemplateSpec(spec=PodSpec(node_selector={"kubernetes.io/os": "linux"}))),
)
WELL = Facts(
    now=NOW,
    url="https://127.0.0.1:6443",
    version=Read("v1.36.4"),
    kinds=Read({LIFECYCLE_GROUP: KINDS, LIFECYCLE_GROUP_ALTERNATIVE: frozenset()}),
    hooks=Read((hook(DELETION_REGISTRATION, "Ignore"), hook(EVICTION_REGISTRATION, "Fail"))),
    lease_namespace=Read(True),
    leases=Read({"node-1": lease("node-1", age=dt.timedelta(seconds=5))}),
    nodes=Read({"node-1": node("node-1")}),
    agents=Read((AGENTS,)),
    events=Read((event("e", claim_status="Claimed", node_uid="u", finalizers=(FINALIZER_CLAIMED,)),)),
    transitions=Read((transition("t", offered=dt.timedelta(minutes=5)),)),
)


def found(**changed: Any) -> list[Finding]:
    return list(examine(dataclasses.replace(WELL, **changed)))


def only(**changed: Any) -> Finding:
    [finding] = found(**changed)
    assert finding.fix
    return finding


def test_a_cluster_that_is_well() -> None:
    assert found() == []
    assert found(hooks=Read(()), is_native=True, agents=Read(())) == []


def test_the_name_of_the_agents() -> None:
    assert collector.AGENT_NAME == installation.AGENT


def test_an_api_server_that_does_not_answer_hides_the_rest() -> None:
    finding = only(version=Read(problem="the API server does not answer: refused"), kinds=Read(problem="no"))
    assert (finding.check, finding.severity, finding.object) == ("api-server", Severity.ERROR, WELL.url)
    assert "refused" in finding.problem


def test_an_old_api_server() -> None:
    assert only(version=Read("v1.29.3")).severity is Severity.WARNING
    assert found(version=Read("v1.30.0")) == []


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Facts) if field.type.startswith("Read")])
def test_a_fact_that_may_not_be_read_is_said_and_not_passed(field: str) -> None:
    # The DaemonSet only matters for nodes without a Lease.
    around: dict[str, Any] = {"leases": Read({})} if field == "agents" else {}
    findings = found(**around, **{field: Read(problem="Nodes: forbidden")})
    assert findings
    for finding in findings:
        assert finding.severity in {Severity.UNKNOWN, Severity.ERROR}
        assert "forbidden" in finding.problem


def test_kinds_that_are_missing_doubled_or_old() -> None:
    none = {LIFECYCLE_GROUP: frozenset({"evictionrequests"}), LIFECYCLE_GROUP_ALTERNATIVE: frozenset[str]()}
    finding = only(kinds=Read(none), events=Read(()), transitions=Read(()))
    assert (finding.check, finding.severity) == ("lifecycle-kinds", Severity.ERROR)
    assert "serves no LifecycleEvents" in finding.problem
    finding = only(kinds=Read({LIFECYCLE_GROUP: KINDS, LIFECYCLE_GROUP_ALTERNATIVE: KINDS}))
    assert finding.severity is Severity.WARNING
    assert finding.object == f"{LIFECYCLE_GROUP}, {LIFECYCLE_GROUP_ALTERNATIVE}"
    finding = only(kinds=Read({LIFECYCLE_GROUP: KINDS - {"nodelifecyclerecords"}}))
    assert "nodelifecyclerecords not served" in finding.problem


def test_kinds_in_another_group_than_the_one_that_was_named() -> None:
    finding = only(wanted_group=LIFECYCLE_GROUP_ALTERNATIVE, events=Read(()), transitions=Read(()))
    assert (finding.check, finding.severity) == ("lifecycle-kinds", Severity.ERROR)
    assert finding.problem == (
        f"this cluster serves LifecycleEvents in {LIFECYCLE_GROUP}, not in {LIFECYCLE_GROUP_ALTERNATIVE}"
    )
    assert finding.fix == f"leave --lifecycle-api-group out, or name {LIFECYCLE_GROUP}"
    both = Read({LIFECYCLE_GROUP: KINDS, LIFECYCLE_GROUP_ALTERNATIVE: KINDS})
    assert found(kinds=both, wanted_group=LIFECYCLE_GROUP) == []


def test_webhooks_that_are_not_registered_are_worth_knowing() -> None:
    findings = found(hooks=Read(()))
    assert [(one.check, one.severity) for one in findings] == [
        ("deletion-webhook", Severity.INFO),
        ("eviction-webhook", Severity.INFO),
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"service_exists": Read(False)}, "missing, and ValidatingWebhookConfiguration"),
        ({"ready_endpoints": Read(0)}, "no endpoint is ready"),
        ({"has_bundle": False}, "caBundle is empty"),
        ({"authorities": Read((Validity(NOW - DAY, NOW - HOUR),))}, "caBundle expired at 2026-03-01T11:00:00Z"),
        ({"authorities": Read((Validity(NOW + HOUR, NOW + DAY),))}, "caBundle is not valid before"),
        ({"authorities": Read((Validity(NOW - 200 * DAY, NOW + DAY),))}, "caBundle expires at"),
        ({"serving": Read((Validity(NOW - 30 * DAY, NOW - DAY), *VALID))}, "serving certificate expired at"),
        ({"serving": Read((Validity(NOW - 28 * DAY, NOW + 2 * DAY),))}, "serving certificate expires at"),
    ],
)
def test_webhooks_that_are_away_or_not_trusted(changed: dict[str, Any], words: str) -> None:
    for registration, policy, check in (
        (DELETION_REGISTRATION, "Ignore", "deletion-webhook"),
        (EVICTION_REGISTRATION, "Fail", "eviction-webhook"),
    ):
        findings = found(hooks=Read((hook(registration, policy, **changed),)), is_native=True, agents=Read(()))
        [finding] = findings
        assert finding.check == check
        assert words in finding.problem
        near = "expires at" in words
        assert finding.severity is (Severity.WARNING if near else Severity.ERROR)


def test_one_authority_of_a_bundle_that_is_valid_will_do() -> None:
    both = (Validity(NOW - 400 * DAY, NOW - DAY), *VALID)
    assert found(hooks=Read((hook(EVICTION_REGISTRATION, "Fail", authorities=Read(both)),)), is_native=True) == []


def test_an_authority_that_is_not_valid_yet_is_no_problem_beside_one_that_is() -> None:
    def of(*authorities: Validity) -> list[Finding]:
        return found(hooks=Read((hook(EVICTION_REGISTRATION, "Fail", authorities=Read(authorities)),)), is_native=True)

    coming = Validity(NOW + HOUR, NOW + 400 * DAY)
    assert of(*VALID, coming) == []
    assert of(Validity(NOW - 300 * DAY, NOW + DAY), coming) == []  # replaced before it expires
    [late] = of(Validity(NOW - 300 * DAY, NOW + DAY), Validity(NOW + 2 * DAY, NOW + 400 * DAY))
    assert (late.severity, "caBundle expires at" in late.problem) == (Severity.WARNING, True)
    [none] = of(Validity(NOW - 300 * DAY, NOW - DAY), coming)
    assert (none.severity, "caBundle is not valid before" in none.problem) == (Severity.ERROR, True)


def test_a_right_that_is_missing_hides_no_error_of_a_webhook() -> None:
    expired = Read((Validity(NOW - DAY, NOW - HOUR),))
    away = hook(
        DELETION_REGISTRATION,
        "Fail",
        service_exists=Read(problem="Service: forbidden"),
        authorities=expired,
        serving=expired,
    )
    service, bundle, serving, policy = found(hooks=Read((away,)), agents=Read(()))
    assert (service.severity, service.object) == (Severity.UNKNOWN, "Service/fairlead-system/fairlead-webhook")
    assert "Service: forbidden" in service.problem
    assert (bundle.severity, "caBundle expired" in bundle.problem) == (Severity.ERROR, True)
    assert (serving.severity, "serving certificate expired" in serving.problem) == (Severity.ERROR, True)
    assert (policy.severity, "failurePolicy is Fail" in policy.problem) == (Severity.WARNING, True)


@pytest.mark.parametrize("encoded", ["bm90IGEgY2VydGlmaWNhdGU=", "%%%", "LS0tLS1CRUdJTg=="])
def test_certificates_that_are_broken_are_errors(encoded: str) -> None:
    broken = collector.validities(encoded)
    away = hook(EVICTION_REGISTRATION, "Fail", authorities=broken, serving=broken)
    bundle, serving = found(hooks=Read((away,)), is_native=True)
    assert (bundle.severity, "caBundle holds no certificates" in bundle.problem) == (Severity.ERROR, True)
    assert (serving.severity, "tls.crt holds no certificate" in serving.problem) == (Severity.ERROR, True)


def test_a_webhook_that_is_called_by_its_url_may_be_trusted_by_the_system() -> None:
    elsewhere = hook(EVICTION_REGISTRATION, "Fail", service="", has_bundle=False, secret="")
    assert found(hooks=Read((elsewhere,)), is_native=True) == []


def test_failure_policies_that_were_changed() -> None:
    [deletes, evicts] = found(hooks=Read((hook(DELETION_REGISTRATION, "Fail"), hook(EVICTION_REGISTRATION, "Ignore"))))
    assert (deletes.check, deletes.severity) == ("deletion-webhook", Severity.WARNING)
    assert (evicts.check, evicts.severity) == ("eviction-webhook", Severity.WARNING)


def test_a_secret_that_may_not_be_read() -> None:
    finding = only(
        hooks=Read((hook(EVICTION_REGISTRATION, "Fail", serving=Read(problem="forbidden")),)), is_native=True
    )
    assert finding.severity is Severity.INFO
    assert "serving certificate not checked: forbidden" in finding.problem


def test_the_namespace_of_the_leases() -> None:
    finding = only(lease_namespace=Read(False), leases=Read({}))
    assert (finding.check, finding.severity) == ("lease-namespace", Severity.ERROR)


def test_agents_that_are_silent_or_missing() -> None:
    finding = only(leases=Read({"node-1": lease("node-1", age=HOUR)}))
    assert (finding.object, finding.severity) == ("Node/node-1", Severity.ERROR)
    assert "agent-a last renewed it at 2026-03-01T11:00:00Z" in finding.problem
    assert "given up its Lease" in only(leases=Read({"node-1": lease("node-1", age=HOUR, holder="")})).problem
    assert "no agent has ever held" in only(leases=Read({})).problem
    # Without a DaemonSet only nodes that had an agent must have one.
    two = {"node-1": node("node-1"), "node-2": node("node-2")}
    assert found(nodes=Read(two), agents=Read(()), events=Read(())) == []
    assert only(leases=Read({}), agents=Read(()), nodes=Read(two)).problem.startswith("no node has an agent")
    finding = only(leases=Read({}), nodes=Read({"node-1": node("node-1", ready="Unknown")}))
    assert finding.severity is Severity.INFO


def test_daemon_sets_that_may_not_be_read_hide_no_silent_agent() -> None:
    two = {"node-1": node("node-1"), "node-2": node("node-2")}
    silent, unknown = found(
        nodes=Read(two),
        leases=Read({"node-2": lease("node-2", age=HOUR)}),
        agents=Read(problem="DaemonSets: forbidden"),
    )
    assert (silent.object, silent.severity) == ("Node/node-2", Severity.ERROR)
    assert unknown.severity is Severity.UNKNOWN


def test_transitions_that_no_driver_offers() -> None:
    finding = only(transitions=Read((transition("t", offered=HOUR),)))
    assert (finding.object, finding.severity) == ("LifecycleTransition/t", Severity.WARNING)
    assert "2026-03-01T11:00:00Z" in finding.problem
    finding = only(transitions=Read((transition("mine", offered=None, driver="example.com/typo"),)))
    assert finding.severity is Severity.INFO
    # One of a user's for a driver that is there.
    fresh = transition("t", offered=dt.timedelta(minutes=5))
    assert found(transitions=Read((fresh, transition("mine", offered=None)))) == []


@pytest.mark.parametrize(
    ("stuck", "words"),
    [
        (
            event("e", "node-1", claim_status="Claimed", node_uid="before"),
            "its node was replaced, and event-gc has not collected it since 2026-03-01T11:00:00Z",
        ),
        (
            event(
                "e", claim_status="Failed", node_uid="u", finalizers=(FINALIZER_CLAIMED,), completion_time=NOW - HOUR
            ),
            "the claimant has not removed its finalizer since 2026-03-01T11:00:00Z",
        ),
        (
            event("e", claim_status="Claimed", node_uid="u", finalizers=(FINALIZER_CLAIMED,), deleted=NOW - HOUR),
            "deleted, and its finalizer is still there since 2026-03-01T11:00:00Z",
        ),
    ],
)
def test_events_that_are_held(stuck: LifecycleEvent, words: str) -> None:
    finding = only(events=Read((stuck,)))
    assert (finding.check, finding.object, finding.severity) == (
        "finalizers",
        "LifecycleEvent/e",
        Severity.WARNING,
    )
    assert words in finding.problem


def test_an_event_whose_node_is_gone_is_no_problem_yet() -> None:
    """When the node went is not known."""
    finding = only(events=Read((event("e", "gone", claim_status="Claimed", node_uid="u"),)))
    assert (finding.object, finding.severity) == ("LifecycleEvent/e", Severity.INFO)
    assert "its node is gone" in finding.problem


def test_an_event_whose_node_was_replaced_a_minute_ago_has_time_left() -> None:
    replaced = {"node-1": node("node-1", created=NOW - dt.timedelta(minutes=1))}
    assert found(events=Read((event("e", claim_status="Claimed", node_uid="before"),)), nodes=Read(replaced)) == []


def test_events_that_have_time_left() -> None:
    moment = NOW - dt.timedelta(minutes=1)
    fine = (
        event("a", claim_status="Failed", finalizers=(FINALIZER_CLAIMED,), completion_time=moment, node_uid="u"),
        event("b", claim_status="Succeeded", completion_time=NOW - HOUR, node_uid="u"),
        event("c", claim_status="Anew"),
        event("d", claim_status="Claimed", finalizers=(FINALIZER_CLAIMED,), deleted=moment, node_uid="u"),
    )
    assert found(events=Read(fine)) == []


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({name for name, _ in CHECKS}) == len(CHECKS)
