from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Pod,
    PodCondition,
    PodStatus,
    Taint,
    TaintEffect,
)
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, DRIVER_SHUTDOWN, NODE_SHUTDOWN
from kube_fairlead.lifecycle.shutdown_observation import (
    TAINT_OUT_OF_SERVICE,
    Observation,
    ObservedNode,
    observe,
    out_of_service,
)
from kube_fairlead.lifecycle.steps import Finish, Nothing, WaitUntil

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
SILENCE = dt.timedelta(seconds=40)
QUIET = NOW - SILENCE
SECOND = dt.timedelta(seconds=1)
LATER = NOW + dt.timedelta(minutes=5)
CLOUD_OFF = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect=TaintEffect.NO_SCHEDULE)
OTHERS_TAINT = Taint(key=TAINT_OUT_OF_SERVICE.key, value="somebody", effect=TaintEffect.NO_EXECUTE)


def a_node(
    said: str = "", *, uid: str = "u", boot_id: str = "boot-1", ready: str = "", taints: tuple[Taint, ...] = ()
) -> Node:
    words = {CONDITION_LIFECYCLE_TRANSITION: ("True", said) if said else None, "Ready": (ready, "r") if ready else None}
    conditions = tuple(
        NodeCondition(type=name, status=told[0], reason=told[1]) for name, told in words.items() if told is not None
    )
    return Node(
        metadata=ObjectMeta(name="n", uid=uid),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(conditions=conditions, node_info=NodeSystemInfo(boot_id=boot_id)),
    )


def an_event(
    *,
    name: str = NODE_SHUTDOWN.name,
    claim_status: str = "Claimed",
    boot_id: str = "boot-1",
    sla: dt.datetime | None = LATER,
) -> LifecycleEvent:
    return LifecycleEvent(
        metadata=ObjectMeta(name="e"),
        spec=LifecycleEventSpec(transition_name=name, binding_node="n"),
        status=LifecycleEventStatus(
            claim_status=claim_status,
            driver=DRIVER_SHUTDOWN,
            node_uid="u",
            sla=sla,
            transition=FrozenTransition(start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end),
            options={"node-boot-id": boot_id} if boot_id else {},
        ),
    )


def seen(
    node: Node | None, event: LifecycleEvent | None = None, last_report: dt.datetime = NOW, pods: tuple[Pod, ...] = ()
) -> Observation:
    return observe(event or an_event(), ObservedNode(node=node, last_report=last_report, pods=pods), SILENCE, NOW)


@pytest.mark.parametrize(
    ("event", "node"),
    [
        (an_event(name="drain"), a_node(boot_id="boot-2")),
        (an_event(claim_status="Succeeded"), a_node(boot_id="boot-2")),
        (an_event(claim_status="Pending"), a_node(boot_id="boot-2")),
        (an_event(), None),
        (an_event(), a_node(uid="another", boot_id="boot-2")),
        (an_event(sla=None), a_node()),
    ],
)
def test_what_is_none_of_its_business(event: LifecycleEvent, node: Node | None) -> None:
    assert isinstance(seen(node, event, last_report=QUIET), Nothing)


@pytest.mark.parametrize(
    ("before", "after", "rebooted"),
    [("boot-1", "boot-2", True), ("boot-1", "boot-1", False), ("", "boot-2", False), ("boot-1", "", False)],
)
def test_a_reboot(before: str, after: str, rebooted: bool) -> None:
    observed = seen(a_node(boot_id=after), an_event(boot_id=before))
    assert isinstance(observed, Finish) == rebooted
    if isinstance(observed, Finish):
        assert observed.status.claim_status == ClaimStatus.SUCCEEDED
        assert observed.status.completion_time == NOW
        assert observed.status.message == "the node shut down and started again"


@pytest.mark.parametrize(
    ("said", "last_report", "sla", "expected"),
    [
        (
            NODE_SHUTDOWN.end,
            QUIET,
            LATER,
            "all pods had ended, and the node has not reported since 2026-03-01T11:59:20Z",
        ),
        (NODE_SHUTDOWN.end, QUIET + SECOND, LATER, NOW + SECOND),
        (NODE_SHUTDOWN.end, NOW, NOW + SECOND, NOW + SECOND),
        (NODE_SHUTDOWN.end, NOW, None, NOW + SILENCE),
        (NODE_SHUTDOWN.start, QUIET, LATER, LATER),
        ("", QUIET, LATER, LATER),
        (
            NODE_SHUTDOWN.start,
            QUIET,
            NOW,
            "it does not report, which may be a network partition; it had not reported that its pods have",
        ),
        (NODE_SHUTDOWN.start, NOW, NOW, "it still reports; it had not reported that its pods have ended"),
        (NODE_SHUTDOWN.end, NOW, NOW, "it still reports; all its pods had ended"),
    ],
)
def test_silence(said: str, last_report: dt.datetime, sla: dt.datetime | None, expected: dt.datetime | str) -> None:
    observed = seen(a_node(said), an_event(sla=sla), last_report)
    if isinstance(expected, dt.datetime):
        assert isinstance(observed, WaitUntil)
        assert observed.moment == expected
    else:
        assert isinstance(observed, Finish)
        assert expected in observed.status.message
        in_time = sla == LATER
        assert observed.status.claim_status == (ClaimStatus.SUCCEEDED if in_time else ClaimStatus.SLA_EXPIRED)


@pytest.mark.parametrize(
    ("count", "ended", "expected"),
    [
        (0, 1, ""),
        (1, 0, "; pods left behind: a/p-0"),
        (5, 1, "; pods left behind: a/p-0, a/p-1, a/p-2, a/p-3, a/p-4"),
        (7, 0, "; pods left behind: a/p-0, a/p-1, a/p-2, a/p-3, a/p-4 and 2 more"),
    ],
)
def test_pods_that_are_left_behind_are_named(count: int, ended: int, expected: str) -> None:
    pods = [
        Pod(metadata=ObjectMeta(name=f"p-{number}", namespace="a"), status=PodStatus(phase=phase))
        for number, phase in enumerate(["Running"] * count + ["Failed"] * ended)
    ]
    observed = seen(a_node(boot_id="boot-2"), pods=tuple(reversed(pods)))
    assert isinstance(observed, Finish)
    assert observed.status.message == f"the node shut down and started again{expected}"


@pytest.mark.parametrize(
    ("made", "claimed", "ready", "is_named"),
    [
        (NOW - SECOND, NOW, "False", True),
        (NOW, NOW, "False", True),
        (NOW + SECOND, NOW, "False", False),  # made after the shutdown had begun: of the new boot
        (NOW - SECOND, NOW, "True", False),  # ready again: the new boot has started it
        (NOW - SECOND, NOW, "", True),
        (None, NOW, "False", True),
        (NOW + SECOND, None, "False", True),
        (NOW + SECOND, None, "True", False),
    ],
)
def test_pods_of_the_new_boot_are_not_left_behind(
    made: dt.datetime | None, claimed: dt.datetime | None, ready: str, is_named: bool
) -> None:
    conditions = (PodCondition(type="Ready", status=ready),) if ready else ()
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="a", creation_timestamp=made),
        status=PodStatus(phase="Running", conditions=conditions),
    )
    event = an_event()
    event = wire.replace(event, status=wire.replace(event.status, claim_time=claimed))
    observed = seen(a_node(boot_id="boot-2"), event, pods=(pod,))
    assert isinstance(observed, Finish)
    assert observed.status.message.endswith("pods left behind: a/p") == is_named


@pytest.mark.parametrize(
    ("said", "ready", "taints", "expected"),
    [
        (NODE_SHUTDOWN.end, "Unknown", (CLOUD_OFF,), True),
        (NODE_SHUTDOWN.end, "Unknown", (), None),
        (NODE_SHUTDOWN.start, "Unknown", (CLOUD_OFF,), None),
        ("", "Unknown", (CLOUD_OFF,), None),
        (NODE_SHUTDOWN.end, "Unknown", (CLOUD_OFF, TAINT_OUT_OF_SERVICE), None),
        (NODE_SHUTDOWN.end, "Unknown", (CLOUD_OFF, OTHERS_TAINT), None),
        ("", "True", (TAINT_OUT_OF_SERVICE,), False),
        ("", "True", (TAINT_OUT_OF_SERVICE, CLOUD_OFF), None),
        ("", "False", (TAINT_OUT_OF_SERVICE,), None),
        ("", "", (TAINT_OUT_OF_SERVICE,), None),
        ("", "True", (OTHERS_TAINT,), None),
        ("", "True", (), None),
    ],
)
def test_the_taint_that_detaches_volumes(
    said: str, ready: str, taints: tuple[Taint, ...], expected: bool | None
) -> None:
    assert out_of_service(a_node(said, ready=ready, taints=taints)) is expected
