"""Telling the API that the node goes down: its conditions, its cordon, and the LifecycleEvent that stands for it.

Every step looks at what is there and writes only what is missing, so that it may be repeated, and so that a later
process goes on where this one was killed. The event is claimed by the node itself (`node/<name>`) and stays Claimed:
whether the machine really went down is seen by the next boot, or from elsewhere.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any, Final

from kube_fairlead.agent.shutdown.state_file import ShutdownState
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import time as api_time
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ConditionStatus, ObjectMeta
from kube_fairlead.api.reserved import (
    ANNOTATION_CORDONED_BY,
    ANNOTATION_WINDING_UP,
    CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS,
    CONDITION_LIFECYCLE_TRANSITION,
    DRIVER_SHUTDOWN,
    FINALIZER_CLAIMED,
    NODE_SHUTDOWN,
)
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch, StrategicMergePatch
from kube_fairlead.lifecycle import claims, conditions, deadlines, driver_options, phases, shutdown_status
from kube_fairlead.lifecycle.drain import cordons
from kube_fairlead.lifecycle.shutdown_observation import OPTION_NODE_BOOT_ID
from kube_fairlead.lifecycle.shutdown_recovery import WORDS_CALLED_OFF, WORDS_CAME_BACK, Witness

__all__ = ["NotYet", "ShutdownStatusWriter"]

_BOOT_ID: Final = "boot-id"
_STARTED_AT: Final = "started-at"
_STATES: Final = frozenset({NODE_SHUTDOWN.start, NODE_SHUTDOWN.end})
# How long after its pods a machine may take to be down, before that counts as a failure.
_DOWN_WITHIN: Final = dt.timedelta(minutes=5)
_NAME_MAX: Final = 253


class NotYet(Exception):
    """Raised when a step has to wait for somebody else: another event of the node is still claimed."""


class ShutdownStatusWriter:
    """What the API is told about one node.

    Raises (every method): whatever the client raises when the server cannot be reached or refuses.
    """

    def __init__(self, client: Client, node_name: str, *, well_known: bool = True) -> None:
        once = client.with_retry(retry.NEVER)
        self._clock = client.clock
        self._node_name = node_name
        self._well_known = well_known
        self._nodes = once.of(Node)
        self._events = once.of(LifecycleEvent)
        self._transitions = once.of(LifecycleTransition)

    async def node(self) -> Node | None:
        """The node as it is now."""
        try:
            return await self._nodes.get(self._node_name)
        except api_errors.NotFound:
            return None

    async def witnesses(self, *, events: bool = True) -> tuple[Witness | None, Witness | None]:
        """What the event and the condition say, for an agent that starts."""
        own = await self._own_events() if events else []
        event = next((one for one in own if one.claim_status is ClaimStatus.CLAIMED), None)
        return _event_witness(event), _condition_witness(await self.node())

    async def keep_pods_away(self, state: ShutdownState) -> None:
        """Cordon and taint the node. A cordon of ours says so in the same write: no lost answer makes it another's."""
        node = await self.node()
        if node is None:
            return
        spec: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        if not node.spec.unschedulable:
            spec["unschedulable"] = True
            annotations[ANNOTATION_CORDONED_BY] = _event_name(self._node_name, state.start_time)
        if shutdown_status.TAINT not in [wire.replace(taint, time_added=None) for taint in node.spec.taints]:
            spec["taints"] = [wire.to_dict(taint) for taint in shutdown_status.taints_with_ours(node)]
        await self._patch(node, spec, annotations)

    async def draw_line(self) -> None:
        """The shutdown is over: whatever was sent about it before, and is not stored yet, never will be.

        A request that was given up may still be on its way. All that is said of a shutdown carries the version of the
        node that it was meant for, so a newer one keeps it out; what was stored before is seen by whoever looks now.
        """
        node = await self.node()
        if node is None:
            return
        since = {ANNOTATION_WINDING_UP: api_time.format_micro_time(self._clock.now())}
        await self._nodes.patch(node.name, MergePatch({"metadata": {"uid": node.uid, "annotations": since}}))

    async def let_pods_in(self) -> None:
        """Take that back. A cordon that was there before is not ours to lift."""
        node = await self.node()
        if node is None:
            return
        spec: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        if ANNOTATION_WINDING_UP in node.metadata.annotations:
            annotations[ANNOTATION_WINDING_UP] = None
        if _is_shutdowns(node.metadata.annotations.get(ANNOTATION_CORDONED_BY, ""), self._node_name):
            annotations[ANNOTATION_CORDONED_BY] = None
            if cordons.owner(node):
                spec["unschedulable"] = None
        left = shutdown_status.taints_without_ours(node.spec.taints)
        if len(left) != len(node.spec.taints):
            spec["taints"] = [wire.to_dict(taint) for taint in left] or None
        await self._patch(node, spec, annotations)

    async def publish(self, state: str, *, with_ready: bool) -> None:
        """Say on the node which state the shutdown has reached; and that it is not ready, where that is ours to say."""
        wanted = shutdown_status.node_conditions(state, well_known=self._well_known)
        if not with_ready:
            wanted = tuple(one for one in wanted if one != shutdown_status.NODE_NOT_READY)
        await self._publish(wanted)

    async def clear_conditions(self, why: str) -> None:
        """Nothing is under way any more."""
        node = await self.node()
        if node is None:
            return
        said: list[dict[str, Any]] = []
        current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
        if current is not None and current.reason in _STATES:
            said.append({"type": CONDITION_LIFECYCLE_TRANSITION, "$patch": "delete"})
        known = node.condition(CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS)
        if known is not None and known.status == ConditionStatus.TRUE:
            over = conditions.Wanted(known.type, ConditionStatus.FALSE, why, "")
            said.append(wire.to_dict(conditions.written(over, known, self._clock.now())))
        if said:
            await self._patch_status(node, said)

    async def claim(self, state: ShutdownState) -> None:
        """Have an event that stands for the shutdown, claimed by this node.

        Raises:
            NotYet: another event of the node is claimed.
        """
        event = await self._event(state)
        if event.claim_status is ClaimStatus.PENDING:
            node = await self.node()
            if node is None:
                raise NotYet(f"there is no node {self._node_name}")
            await self._settle_earlier(state)
            others = await self._events.list(field_selector=f"spec.bindingNode={self._node_name}")
            if busy := [one for one in others.items if one.claim_status is ClaimStatus.CLAIMED]:
                raise NotYet(f"event {busy[0].name} is still claimed")
            transition = await self._transition()
            event = await self._events.update_status(
                wire.replace(event, status=self._claimed(event, state, node, transition))
            )
        if event.claim_status is ClaimStatus.CLAIMED and FINALIZER_CLAIMED not in event.metadata.finalizers:
            held = (*event.metadata.finalizers, FINALIZER_CLAIMED)
            event = await self._events.update(wire.replace_metadata(event, finalizers=held))

    async def record_start(self, state: ShutdownState) -> None:
        """The node says that it goes down: the event may say since when."""
        event = await self._event(state)
        if event.claim_status is ClaimStatus.CLAIMED and event.status.start_time is None:
            started = wire.replace(event.status, start_time=deadlines.whole_seconds(state.start_time))
            await self._events.update_status(wire.replace(event, status=started))

    async def settle(self, outcome: ClaimStatus, message: str) -> None:
        """Finish whatever event of a shutdown this node still has claimed."""
        for event in await self._own_events():
            await self._finish(event, outcome, message)

    async def _settle_earlier(self, state: ShutdownState) -> None:
        """Finish the event of a shutdown that could not be wound up before this one began."""
        for event in await self._own_events():
            if event.status.options.get(_BOOT_ID) == state.boot_id:
                await self._finish(event, ClaimStatus.FAILED, WORDS_CALLED_OFF)
            else:
                await self._finish(event, ClaimStatus.SUCCEEDED, WORDS_CAME_BACK)

    async def _finish(self, event: LifecycleEvent, outcome: ClaimStatus, message: str) -> None:
        if event.claim_status is not ClaimStatus.CLAIMED:
            return
        status = phases.advance(
            event.status,
            outcome,
            completion_time=deadlines.whole_seconds(self._clock.now()),
            message=phases.shortened(message),
        )
        await self._events.update_status(wire.replace(event, status=status))

    async def _own_events(self) -> list[LifecycleEvent]:
        page = await self._events.list(field_selector=f"spec.bindingNode={self._node_name}")
        own = claims.node_claimant(self._node_name)
        return [
            event
            for event in page.items
            if event.spec.transition_name == NODE_SHUTDOWN.name and event.status.claimed_by == own
        ]

    async def _event(self, state: ShutdownState) -> LifecycleEvent:
        name = _event_name(self._node_name, state.start_time)
        try:
            return await self._events.get(name)
        except api_errors.NotFound:
            await self._transition()
        prefix = driver_options.annotation_prefix(DRIVER_SHUTDOWN)
        node = await self.node()
        told = {
            _BOOT_ID: state.boot_id,
            _STARTED_AT: api_time.format_micro_time(state.start_time),
            OPTION_NODE_BOOT_ID: "" if node is None else node.status.node_info.boot_id,
        }
        event = LifecycleEvent(
            metadata=ObjectMeta(name=name, annotations={f"{prefix}{key}": value for key, value in told.items()}),
            spec=LifecycleEventSpec(transition_name=NODE_SHUTDOWN.name, binding_node=self._node_name),
        )
        return await self._events.create(event)

    async def _transition(self) -> LifecycleTransition:
        try:
            return await self._transitions.get(NODE_SHUTDOWN.name)
        except api_errors.NotFound:
            spec = LifecycleTransitionSpec(
                start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end, driver=DRIVER_SHUTDOWN, all_nodes=True
            )
            made = LifecycleTransition(metadata=ObjectMeta(name=NODE_SHUTDOWN.name), spec=spec)
            return await self._transitions.create(made)

    def _claimed(
        self, event: LifecycleEvent, state: ShutdownState, node: Node, transition: LifecycleTransition
    ) -> LifecycleEventStatus:
        budget = dt.timedelta(seconds=sum(period.seconds for period in state.periods))
        now = deadlines.whole_seconds(self._clock.now())
        return phases.advance(
            event.status,
            ClaimStatus.CLAIMED,
            driver=DRIVER_SHUTDOWN,
            sla=deadlines.deadline_after(state.start_time, budget + _DOWN_WITHIN),
            claimed_by=claims.node_claimant(self._node_name),
            node_uid=node.uid,
            transition=FrozenTransition(uid=transition.uid, start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end),
            options=driver_options.options_for(DRIVER_SHUTDOWN, event.metadata.annotations),
            first_seen_time=event.status.first_seen_time or now,
            claim_time=now,
            message="",
        )

    async def _publish(self, wanted: Iterable[conditions.Wanted]) -> None:
        node = await self.node()
        if node is None:
            return
        now = self._clock.now()
        missing = conditions.outstanding(wanted, node)
        said = [wire.to_dict(conditions.written(one, node.condition(one.type), now)) for one in missing]
        if said:
            await self._patch_status(node, said)

    async def _patch(self, node: Node, spec: dict[str, Any], annotations: dict[str, Any]) -> None:
        if not spec and not annotations:
            return
        # Taints are one list to a merge patch, so the version guards those of others.
        metadata: dict[str, Any] = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        if annotations:
            metadata["annotations"] = annotations
        await self._nodes.patch(node.name, MergePatch({"metadata": metadata, "spec": spec}))

    async def _patch_status(self, node: Node, said: list[dict[str, Any]]) -> None:
        # Guarded by the version too. What is there by then may be another's, whose event has its turn already; and what
        # comes late must not be said of a node that is up again (`draw_line`).
        metadata = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        body = {"metadata": metadata, "status": {"conditions": said}}
        await self._nodes.patch(node.name, StrategicMergePatch(body), subresource="status")


def _event_name(node_name: str, started_at: dt.datetime) -> str:
    """The same for every process that knows of the same shutdown."""
    return _named(f"{started_at:%Y%m%d-%H%M%S}", node_name)


def _named(moment: str, node_name: str) -> str:
    return f"shutdown-{moment}-{node_name}"[:_NAME_MAX].rstrip(".-")


def _is_shutdowns(cordoned_by: str, node_name: str) -> bool:
    """Whether a cordon was made for a shutdown of the node, whichever it was: the disk that knew may be lost."""
    found = re.match(r"shutdown-(\d{8}-\d{6})-", cordoned_by)
    return found is not None and cordoned_by == _named(found[1], node_name)


def _event_witness(event: LifecycleEvent | None) -> Witness | None:
    if event is None:
        return None
    told = event.status.options
    started: dt.datetime | None
    try:
        started = api_time.parse_micro_time(told.get(_STARTED_AT, ""))
    except ValueError:
        started = event.status.claim_time or event.metadata.creation_timestamp
    return None if started is None else Witness(started, told.get(_BOOT_ID, ""))


def _condition_witness(node: Node | None) -> Witness | None:
    current = None if node is None else node.condition(CONDITION_LIFECYCLE_TRANSITION)
    if current is None or current.reason not in _STATES or current.last_transition_time is None:
        return None
    return Witness(current.last_transition_time, complete=current.reason == NODE_SHUTDOWN.end)
