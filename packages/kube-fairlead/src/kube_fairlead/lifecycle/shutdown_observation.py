"""Whether a node that was shutting down is down, as the controller manager observes it.

1. A node with another boot id than at the claim shut down and started again: Succeeded.
2. A node that reported that all its pods have ended, and has not reported since: Succeeded. A node that only stops
   reporting may be partitioned.
3. A node for which neither is known by the deadline of the claim: SlaExpired. The message says whether it reports.

The message names the pods that are bound to the node and have not ended, because a user must handle them.
The taint that detaches volumes requires two facts: the node reported that its pods have ended, and the cloud reports
that the machine is off.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Final

from kube_fairlead.api.core_v1 import Node, Pod, Taint, TaintEffect
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.meta import ConditionStatus
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.lifecycle import deadlines, phases
from kube_fairlead.lifecycle.shutdown_recovery import MESSAGE_REBOOTED
from kube_fairlead.lifecycle.steps import Finish, Nothing, WaitUntil

__all__ = [
    "OPTION_NODE_BOOT_ID",
    "TAINT_OUT_OF_SERVICE",
    "Observation",
    "ObservedNode",
    "is_shutdown",
    "observe",
    "out_of_service",
]

OPTION_NODE_BOOT_ID: Final = "node-boot-id"
"""The option that holds the Node's boot id at the claim of the shutdown."""

TAINT_OUT_OF_SERVICE: Final = Taint(
    key="node.kubernetes.io/out-of-service", value="fairlead", effect=TaintEffect.NO_EXECUTE
)
"""With it Kubernetes force-deletes the node's pods and detaches their volumes. The value marks it as Fairlead's."""

_TAINT_CLOUD_SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
_NAMED_PODS_MAX: Final = 5

Observation = Finish | WaitUntil | Nothing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """What the controller manager knows of a node."""

    node: Node | None
    last_report: dt.datetime  # the last heartbeat of its kubelet or its agent
    pods: tuple[Pod, ...] = ()  # bound to the node


def is_shutdown(event: LifecycleEvent) -> bool:
    """Whether the event represents a node shutdown."""
    return event.spec.transition_name == NODE_SHUTDOWN.name


def observe(
    event: LifecycleEvent, observed: ObservedNode, report_timeout: dt.timedelta, now: dt.datetime
) -> Observation:
    """Decide what happens to a shutdown's event. A node without a report for `report_timeout` may be down."""
    if not is_shutdown(event) or event.claim_status is not ClaimStatus.CLAIMED:
        return Nothing("it is not the event of a shutdown in progress")
    node = observed.node
    if node is None or node.uid != event.status.node_uid:
        return Nothing("its node no longer exists, so the garbage collector finishes it")
    if _has_rebooted(event, node):
        # Pods that were created or started since the reboot were not left behind.
        old = dataclasses.replace(observed, pods=tuple(pod for pod in observed.pods if _is_old(pod, event)))
        return _finish(event, ClaimStatus.SUCCEEDED, MESSAGE_REBOOTED, old, now)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    complete = condition is not None and condition.reason == NODE_SHUTDOWN.end
    report_due = observed.last_report + report_timeout
    if complete and now >= report_due:
        since = f"{observed.last_report:%Y-%m-%dT%H:%M:%SZ}"
        return _finish(
            event,
            ClaimStatus.SUCCEEDED,
            f"all pods had ended, and the node has not reported since {since}",
            observed,
            now,
        )
    if deadlines.expired(event.status, now):
        report = "it does not report, which may be a network partition" if now >= report_due else "it still reports"
        pods = "all its pods had ended" if complete else "it had not reported that its pods have ended"
        return _finish(
            event, ClaimStatus.SLA_EXPIRED, f"the node is not known to be down: {report}; {pods}", observed, now
        )
    moments = [moment for moment in (report_due if complete else None, event.status.sla) if moment is not None]
    return WaitUntil(min(moments), "the machine is going down") if moments else Nothing("the machine is going down")


def out_of_service(node: Node) -> bool | None:
    """Whether to set the taint; None: leave it as it is. Only a taint that Fairlead set is removed."""
    has = any(taint.key == TAINT_OUT_OF_SERVICE.key for taint in node.spec.taints)
    off = any(taint.key == _TAINT_CLOUD_SHUTDOWN for taint in node.spec.taints)
    transition, ready = node.condition(CONDITION_LIFECYCLE_TRANSITION), node.condition("Ready")
    if off and not has and transition is not None and transition.reason == NODE_SHUTDOWN.end:
        return True
    ours = any(
        (taint.key, taint.value) == (TAINT_OUT_OF_SERVICE.key, TAINT_OUT_OF_SERVICE.value) for taint in node.spec.taints
    )
    if ours and not off and ready is not None and ready.status == ConditionStatus.TRUE:
        return False
    return None


def _has_rebooted(event: LifecycleEvent, node: Node) -> bool:
    before, now = event.status.options.get(OPTION_NODE_BOOT_ID, ""), node.status.node_info.boot_id
    return bool(before) and bool(now) and before != now


def _is_old(pod: Pod, event: LifecycleEvent) -> bool:
    made, claimed = pod.metadata.creation_timestamp, event.status.claim_time
    ready = pod.condition("Ready")
    is_ready = ready is not None and ready.status == ConditionStatus.TRUE
    return not is_ready and (made is None or claimed is None or made <= claimed)


def _finish(
    event: LifecycleEvent, outcome: ClaimStatus, message: str, observed: ObservedNode, now: dt.datetime
) -> Finish:
    left = _names(pod for pod in observed.pods if not pod.finished)
    text = f"{message}; pods left behind: {left}" if left else message
    completed = deadlines.whole_seconds(now)
    return Finish(phases.advance(event.status, outcome, completion_time=completed, message=phases.shortened(text)))


def _names(pods: Iterable[Pod]) -> str:
    names = sorted(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)
    more = f" and {len(names) - _NAMED_PODS_MAX} more" if len(names) > _NAMED_PODS_MAX else ""
    return ", ".join(names[:_NAMED_PODS_MAX]) + more
