"""A model of the world around `decide`: one node, its API server, its drivers, and a claimant that may crash."""

from __future__ import annotations

import datetime as dt
from typing import assert_never

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, NodeCondition
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
    Progress,
    RecordEntry,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.lifecycle import claims, conditions, invariants
from kube_fairlead.lifecycle import steps as d
from kube_fairlead.lifecycle.decisions import decide
from kube_fairlead.lifecycle.facts import (
    Calling,
    DriverTraits,
    Ended,
    Facts,
    Idle,
    Offer,
    Precedence,
    Refused,
    Run,
    Settings,
    Started,
    Unreachable,
)

START = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
NODE = "node-1"
DRIVER = "example.com/reboot"


def transition(name: str = "reboot", sla: str | None = None, driver: str = DRIVER) -> LifecycleTransition:
    return LifecycleTransition(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}"),
        spec=LifecycleTransitionSpec(start=f"{name}-a", end=f"{name}-z", all_nodes=True, sla=sla, driver=driver),
    )


def event(name: str = "e", transition_name: str = "reboot", created: dt.datetime = START) -> LifecycleEvent:
    return LifecycleEvent(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=created),
        spec=LifecycleEventSpec(transition_name=transition_name, binding_node=NODE),
    )


def node(uid: str = "node-uid-1") -> Node:
    return Node(metadata=ObjectMeta(name=NODE, uid=uid))


class World:
    """What is stored, what runs, and what the rules say about both. Every write is checked."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now = START
        self.node: Node | None = node()
        self.events: dict[str, LifecycleEvent] = {}
        self.transitions: dict[str, LifecycleTransition] = {}
        self.drivers: dict[str, frozenset[tuple[str, str]]] = {}
        self.settings = settings or Settings()
        self.claimant = claims.node_claimant(NODE)
        self.holds_lease = True
        self.precedence: Precedence | None = None
        self.traits: dict[str, DriverTraits] = {}
        self.unreachable: dict[str, Unreachable] = {}
        self.unasked: list[Offer] = []
        self.drivers_known_at = START
        self.progress: dict[str, Progress] = {}
        # The claimant's memory, which a crash takes.
        self.runs: dict[str, Run] = {}
        self.recorded: set[str] = set()
        # What the world has seen.
        self.statuses: dict[str, list[ClaimStatus]] = {}
        self.reasons: list[tuple[str, str]] = []  # (event uid, reason)
        self.calls: list[tuple[str, str]] = []  # (event uid, start or end)
        self.records: list[RecordEntry] = []  # every one that was written

    def offer(self, *transitions: LifecycleTransition) -> None:
        """Publish transitions, and register their drivers with them."""
        for one in transitions:
            self.transitions[one.name] = one
            pairs = self.drivers.get(one.spec.driver, frozenset())
            self.drivers[one.spec.driver] = pairs | {(one.spec.start, one.spec.end)}

    def add(self, new: LifecycleEvent) -> None:
        self.events[new.name] = new
        self.statuses[new.uid] = [new.claim_status]

    def facts(self) -> Facts:
        return Facts(
            claimant=self.claimant,
            holds_lease=self.holds_lease,
            node=self.node,
            events=tuple(self.events.values()),
            transitions=self.transitions,
            drivers=self.drivers,
            unreachable=self.unreachable,
            unasked=frozenset(self.unasked),
            drivers_known_at=self.drivers_known_at,
            progress=self.progress,
            recorded=frozenset(self.recorded),
            runs=self.runs,
            settings=self.settings,
            precedence=self.precedence,
            traits=self.traits,
        )

    def decide(self, name: str) -> d.Decision:
        return decide(self.events[name], self.facts(), self.now)

    def step(self, name: str) -> d.Decision:
        decision = self.decide(name)
        self.apply(self.events[name], decision)
        return decision

    def apply(self, target: LifecycleEvent, decision: d.Decision) -> None:
        match decision:
            case d.MarkSeen(status) | d.Claim(status) | d.RecordStart(status) | d.NoteDriver(status):
                self._write_status(target, status)
            case d.Finish(status):
                self.runs.pop(target.uid, None)
                self._write_status(target, status)
            case d.AddFinalizer():
                assert not target.deleting
                self._write_finalizers(target, (*target.metadata.finalizers, FINALIZER_CLAIMED))
            case d.WriteRecord(entry):
                assert target.finished
                self.records.append(entry)
                self.recorded.add(target.uid)
            case d.RemoveFinalizer():
                assert not target.finished or target.uid in {one.event_uid for one in self.records}
                invariants.check_may_release(target)
                kept = tuple(name for name in target.metadata.finalizers if name != FINALIZER_CLAIMED)
                self._write_finalizers(target, kept)
            case d.AnnotateNode(changes):
                self._annotate(dict(changes))
            case d.Publish(wanted):
                self._publish(target, wanted)
            case d.StartDriver() | d.EndDriver():
                invariants.check_may_start(target, self.claimant)
                self.calls.append((target.uid, "start" if isinstance(decision, d.StartDriver) else "end"))
                self.runs[target.uid] = Calling()
            case d.AskDriver(offer):
                self.unasked.remove(offer)
            case d.Delete():
                assert target.uid in {one.event_uid for one in self.records}
                self.delete(target.name)
            case d.WaitUntil(moment):
                assert moment > self.now
            case d.Nothing():
                pass
            case other:
                assert_never(other)

    def delete(self, name: str) -> None:
        target = self.events[name]
        if not target.metadata.finalizers:
            self.lose(name)
        elif not target.deleting:
            self.events[name] = wire.replace_metadata(target, deletion_timestamp=self.now)

    def lose(self, name: str) -> None:
        """It is gone, and its claimant stops the driver that may be at work for it."""
        self.runs.pop(self.events.pop(name).uid, None)

    def say_of_shutdown(self, reason: str) -> None:
        """As the node's shutdown manager does; an empty reason clears the condition."""
        if self.node is None:
            return
        current = self.node.condition(CONDITION_LIFECYCLE_TRANSITION)
        if not reason and (current is None or current.reason not in {NODE_SHUTDOWN.start, NODE_SHUTDOWN.end}):
            return
        kept = tuple(one for one in self.node.status.conditions if one.type != CONDITION_LIFECYCLE_TRANSITION)
        said = NodeCondition(
            type=CONDITION_LIFECYCLE_TRANSITION, status="True", reason=reason, last_transition_time=self.now
        )
        status = wire.replace(self.node.status, conditions=(*kept, said) if reason else kept)
        self.node = wire.replace(self.node, status=status)

    def crash(self) -> None:
        self.runs = {}
        self.recorded = set()

    def answer(self, name: str, *, refusal: str = "") -> None:
        """The driver answers the call that is under way, if one is."""
        target = self.events.get(name)
        if target is None or not isinstance(self.runs.get(target.uid, Idle()), Calling):
            return
        last = [call for uid, call in self.calls if uid == target.uid][-1]
        outcome: Run = Started(self.now) if last == "start" else Ended(self.now)
        self.runs[target.uid] = Refused(self.now, refusal) if refusal else outcome

    def settle(self) -> None:
        """Take every step there is to take at this moment."""
        for _ in range(1000):
            before = len(self.events), dict(self.events), dict(self.runs), self.node, set(self.recorded)
            for name in list(self.events):
                if name in self.events:
                    self.step(name)
            if before == (len(self.events), self.events, self.runs, self.node, self.recorded):
                return
        raise AssertionError("never comes to rest")

    def _write_status(self, target: LifecycleEvent, status: LifecycleEventStatus) -> None:
        # As the API stores it: times in whole seconds.
        after = wire.from_dict(LifecycleEvent, wire.to_dict(wire.replace(target, status=status)))
        invariants.check_status_change(target, after)
        invariants.check_own(target, self.claimant)
        if after.claim_status is not self.statuses[target.uid][-1]:
            self.statuses[target.uid].append(after.claim_status)
        self.events[target.name] = after
        invariants.check_single_claim(self.events.values())

    def _write_finalizers(self, target: LifecycleEvent, finalizers: tuple[str, ...]) -> None:
        changed = wire.replace_metadata(target, finalizers=finalizers)
        if changed.deleting and not finalizers:
            self.lose(target.name)
        else:
            self.events[target.name] = changed

    def _annotate(self, changes: dict[str, str | None]) -> None:
        assert self.node is not None
        assert changes
        merged = {**self.node.metadata.annotations, **changes}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.node = wire.replace_metadata(self.node, annotations=kept)

    def _publish(self, target: LifecycleEvent, wanted: tuple[conditions.Wanted, ...]) -> None:
        assert self.node is not None
        assert wanted
        by_type = {condition.type: condition for condition in self.node.status.conditions}
        for one in wanted:
            current = by_type.get(one.type)
            reason = "" if current is None else current.reason
            if one.type == CONDITION_LIFECYCLE_TRANSITION and reason != one.reason:
                invariants.check_reason(target, one.reason, reason)
                self.reasons.append((target.uid, one.reason))
            by_type[one.type] = conditions.written(one, current, self.now)
        status = wire.replace(self.node.status, conditions=tuple(by_type.values()))
        self.node = wire.replace(self.node, status=status)
