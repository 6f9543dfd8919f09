"""Whether a machine that was going down is down: seen from elsewhere, because it cannot say so itself.

1. A node with another boot id than at the claim went down and is up again: Succeeded.
2. A node that had said that all its pods have ended, and is silent since: Succeeded. Silence alone may be a partition.
3. A node of which neither is known by the deadline of the claim: SlaExpired, and it is said whether it still talks.

The pods that are still bound to it and have not ended are named: somebody must see to them.
The taint that lets volumes be detached needs more than silence: the node's word that its pods have ended, and the
cloud's own that the machine is off.
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
from kube_fairlead.lifecycle.shutdown_recovery import WORDS_CAME_BACK
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
"""What the Node said its boot id was when the shutdown was claimed."""

TAINT_OUT_OF_SERVICE: Final = Taint(
    key="node.kubernetes.io/out-of-service", value="fairlead", effect=TaintEffect.NO_EXECUTE
)
"""With it Kubernetes deletes the node's pods by force and detaches their volumes. The value says whose it is."""

_CLOUD_SAYS_OFF: Final = "node.cloudprovider.kubernetes.io/shutdown"
_NAMED_PODS_MAX: Final = 5

Observation = Finish | WaitUntil | Nothing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """What can be seen of a node from elsewhere."""

    node: Node | None
    silent_since: dt.datetime  # the last sign of life: of its kubelet, or of its agent
    pods: tuple[Pod, ...] = ()  # bound to it


def is_shutdown(event: LifecycleEvent) -> bool:
    """Whether the event stands for a machine that goes down."""
    return event.spec.transition_name == NODE_SHUTDOWN.name


def observe(event: LifecycleEvent, sight: ObservedNode, silence: dt.timedelta, now: dt.datetime) -> Observation:
    """What to make of the event of a shutdown."""
    if not is_shutdown(event) or event.claim_status is not ClaimStatus.CLAIMED:
        return Nothing("it is not the event of a shutdown under way")
    node = sight.node
    if node is None or node.uid != event.status.node_uid:
        return Nothing("its node is gone, which is the collector's business")
    if _has_rebooted(event, node):
        # Pods that the new boot has started, or made, are no pods of the old one.
        old = dataclasses.replace(sight, pods=tuple(pod for pod in sight.pods if _is_old(pod, event)))
        return _finish(event, ClaimStatus.SUCCEEDED, WORDS_CAME_BACK, old, now)
    condition = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    complete = condition is not None and condition.reason == NODE_SHUTDOWN.end
    quiet_at = sight.silent_since + silence
    if complete and now >= quiet_at:
        since = f"{sight.silent_since:%Y-%m-%dT%H:%M:%SZ}"
        return _finish(
            event, ClaimStatus.SUCCEEDED, f"all pods had ended, and the node is silent since {since}", sight, now
        )
    if deadlines.expired(event.status, now):
        words = "it is silent, which may be a partition" if now >= quiet_at else "it still talks"
        pods = "all its pods had ended" if complete else "it had not said that its pods have ended"
        return _finish(event, ClaimStatus.SLA_EXPIRED, f"the node is not known to be down: {words}; {pods}", sight, now)
    moments = [moment for moment in (quiet_at if complete else None, event.status.sla) if moment is not None]
    return WaitUntil(min(moments), "the machine is going down") if moments else Nothing("the machine is going down")


def out_of_service(node: Node) -> bool | None:
    """Whether the taint should be there; None: leave it as it is. Only ours is ever taken away."""
    has = any(taint.key == TAINT_OUT_OF_SERVICE.key for taint in node.spec.taints)
    off = any(taint.key == _CLOUD_SAYS_OFF for taint in node.spec.taints)
    said, ready = node.condition(CONDITION_LIFECYCLE_TRANSITION), node.condition("Ready")
    if off and not has and said is not None and said.reason == NODE_SHUTDOWN.end:
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


def _finish(event: LifecycleEvent, outcome: ClaimStatus, message: str, sight: ObservedNode, now: dt.datetime) -> Finish:
    left = _names(pod for pod in sight.pods if not pod.finished)
    text = f"{message}; pods left behind: {left}" if left else message
    completed = deadlines.whole_seconds(now)
    return Finish(phases.advance(event.status, outcome, completion_time=completed, message=phases.shortened(text)))


def _names(pods: Iterable[Pod]) -> str:
    names = sorted(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)
    more = f" and {len(names) - _NAMED_PODS_MAX} more" if len(names) > _NAMED_PODS_MAX else ""
    return ", ".join(names[:_NAMED_PODS_MAX]) + more
