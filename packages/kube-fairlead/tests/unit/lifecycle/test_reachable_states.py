"""Whatever happens in whatever order: invariants 1, 2, 3 and 5 hold at every step, 4 at every rest, and events end."""

from __future__ import annotations

import datetime as dt
import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, TERMINAL, ClaimStatus
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.lifecycle import invariants
from kube_fairlead.lifecycle.facts import Settings
from tests.unit.lifecycle.world import DRIVER, World, event, node, transition

OTHER = "example.com/other"
TRANSITIONS = [transition("reboot", sla="90s"), transition("patient"), transition("other", sla="1s", driver=OTHER)]


class Lifecycle(RuleBasedStateMachine):
    """Users, drivers, time and crashes in any order."""

    names: Bundle[str] = Bundle("names")

    @initialize(keep=st.integers(0, 3600), hold=st.booleans(), well_known=st.booleans())
    def begin(self, keep: int, hold: bool, well_known: bool) -> None:
        self.world = World(
            Settings(keep_finished=dt.timedelta(seconds=keep), hold_autoscalers=hold, well_known_conditions=well_known)
        )
        self.world.offer(*TRANSITIONS)
        self.created = 0
        self.nodes = 1

    @rule(target=names, name=st.sampled_from(["reboot", "patient", "other", "missing"]))
    def create(self, name: str) -> str:
        self.created += 1
        made = event(f"e{self.created}", name, created=self.world.now.replace(microsecond=0))
        self.world.add(made)
        return made.name

    @rule(name=names, times=st.integers(1, 4))
    def step(self, name: str, times: int) -> None:
        for _ in range(times):
            if name in self.world.events:
                self.world.step(name)

    @rule(times=st.integers(1, 12), answers=st.booleans())
    def work(self, times: int, answers: bool) -> None:
        """The claimant continues for a while without interference."""
        for _ in range(times):
            for name in list(self.world.events):
                if name in self.world.events:
                    self.world.step(name)
                    if answers:
                        self.world.answer(name)

    @rule(name=names, refusal=st.sampled_from(["", "", "", "disk is full"]))
    def answer(self, name: str, refusal: str) -> None:
        if name in self.world.events:
            self.world.answer(name, refusal=refusal)

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @rule(seconds=st.sampled_from([0.3, 1, 30, 89.9, 301]))
    def wait(self, seconds: float) -> None:
        self.world.now += dt.timedelta(seconds=seconds)

    @rule(which=st.sampled_from(TRANSITIONS))
    def register(self, which: object) -> None:
        for one in TRANSITIONS:
            if one is which:
                self.world.offer(one)

    @rule(driver=st.sampled_from([DRIVER, OTHER]))
    def unregister(self, driver: str) -> None:
        self.world.drivers.pop(driver, None)

    @rule(name=names)
    def user_deletes(self, name: str) -> None:
        if name in self.world.events:
            self.world.delete(name)

    @rule(name=names)
    def user_removes_the_finalizer(self, name: str) -> None:
        target = self.world.events.get(name)
        if target is None or FINALIZER_CLAIMED not in target.metadata.finalizers:
            return
        if target.deleting:
            self.world.lose(name)
        else:
            self.world.events[name] = wire.replace_metadata(target, finalizers=())

    @rule()
    def node_is_replaced(self) -> None:
        self.nodes += 1
        self.world.node = node(f"node-uid-{self.nodes}")

    @rule(reason=st.sampled_from([NODE_SHUTDOWN.start, NODE_SHUTDOWN.end, "", ""]))
    def machine_goes_down_or_comes_back(self, reason: str) -> None:
        self.world.say_of_shutdown(reason)

    @rule(there=st.sampled_from([True, True, False]))
    def node_goes_or_comes(self, there: bool) -> None:
        if not there:
            self.world.node = None
        elif self.world.node is None:
            self.node_is_replaced()

    @rule(held=st.sampled_from([True, True, False]))
    def lease(self, held: bool) -> None:
        self.world.holds_lease = held
        if not held:
            self.world.crash()  # a claimant without the lease drops its calls

    @rule(name=consumes(names), whose=st.sampled_from(["claimer/central", ""]))
    def another_claims(self, name: str, whose: str) -> None:
        """A claimant without a Lease claims an event; this claimant must not touch it."""
        target = self.world.events.get(name)
        claimed = any(one.claim_status is ClaimStatus.CLAIMED for one in self.world.events.values())
        if target is not None and target.claim_status is ClaimStatus.PENDING and not claimed:
            status = wire.replace(target.status, claim_status=ClaimStatus.CLAIMED, claimed_by=whose)
            self.world.events[name] = wire.replace(target, status=status)
            self.foreign = self.world.events[name]
            self.world.settle()
            assert self.world.events[name] == self.foreign
            del self.world.events[name]

    @rule()
    def rest(self) -> None:
        if self.world.holds_lease:
            self.world.settle()
            for one in self.world.events.values():
                invariants.check_finished_in_time(one, self.world.now, slack=dt.timedelta(0))

    @invariant()
    def only_legal_moves(self) -> None:
        world: World | None = getattr(self, "world", None)
        for moves in world.statuses.values() if world else ():
            assert all(new in LEGAL_MOVES[old] for old, new in itertools.pairwise(moves))

    @invariant()
    def a_reason_moves_from_start_to_end_once(self) -> None:
        world: World | None = getattr(self, "world", None)
        if world is None:
            return
        for uid in world.statuses:
            reasons = [reason[-1] for owner, reason in world.reasons if owner == uid]
            # Published again only after a crash or a new node, and never backwards.
            assert reasons == sorted(reasons)

    def teardown(self) -> None:
        """Every event whose driver is registered ends, without faults."""
        world: World | None = getattr(self, "world", None)
        if world is None:
            return
        world.holds_lease = True
        world.node = world.node or node("node-uid-last")
        world.say_of_shutdown("")
        world.offer(*TRANSITIONS)
        for _ in range(4 * len(world.events) + 4):
            world.settle()
            for name in list(world.events):
                world.answer(name)
        world.now += world.settings.driver_wait + world.settings.keep_finished + dt.timedelta(seconds=2)
        for _ in range(len(world.events) + 3):  # one after the other, each may wait in vain for its driver
            world.settle()
            world.now += world.settings.driver_wait + world.settings.keep_finished + dt.timedelta(seconds=2)
        assert not world.events
        for uid, moves in world.statuses.items():
            assert moves[-1] in TERMINAL or uid not in {one.uid for one in world.events.values()}


Lifecycle.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLifecycle = Lifecycle.TestCase
