"""Mutants that omit a step: a call, a condition, a record."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kube_fairlead.agent.shutdown import pod_terminator, status_writer
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.claimant import driver_calls
from kube_fairlead.driverapi.messages import Reached
from kube_fairlead.drivers.drain import evictor
from kube_fairlead.lifecycle import conditions, decisions, deletion, steps
from kube_fairlead.lifecycle.facts import Facts
from kube_fairlead_apiserver import dispatch
from kube_fairlead_apiserver.storage import store, watchers
from kube_fairlead_apiserver.storage.interface import Row
from kube_fairlead_lab.sim.actors import managers
from tests.sim.mutants.registry import mutant


def _without_calling(step_left_out: str, patch: pytest.MonkeyPatch) -> None:
    once = driver_calls.DriverCalls._call_once

    async def lie(self: Any, registration: Any, event: Any, step: Any, work: Any, trust: Any) -> Any:
        if step == step_left_out:
            return Reached(state=getattr(work, step), node_name=work.node_name)
        return await once(self, registration, event, step, work, trust)

    patch.setattr(driver_calls.DriverCalls, "_call_once", lie)


@mutant("driver work")
def never_calls_the_driver_to_start(patch: pytest.MonkeyPatch) -> None:
    _without_calling("start", patch)


@mutant("driver work")
def never_calls_the_driver_to_end(patch: pytest.MonkeyPatch) -> None:
    _without_calling("end", patch)


@mutant("driver work")
def leaves_a_driver_at_work_when_its_event_is_over(patch: pytest.MonkeyPatch) -> None:
    async def forget(self: Any, uid: str) -> None:
        self._calls.pop(uid, None)
        self.forget(uid)

    patch.setattr(driver_calls.DriverCalls, "cancel", forget)


@mutant("2")
def never_says_on_the_node_where_an_event_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_outstanding", lambda *_args: ())
    patch.setattr(conditions, "is_lost", lambda *_args: False)


@mutant("4")
def gives_a_claim_three_times_its_time(patch: pytest.MonkeyPatch) -> None:
    claim = decisions._claim

    def late(event: Any, claimant: Any, node: Any, transition: Any, now: Any) -> Any:
        made: Any = claim(event, claimant, node, transition, now)
        sla = made.status.claim_time + 3 * transition.spec.sla_duration
        return steps.Claim(wire.replace(made.status, sla=sla))

    patch.setattr(decisions, "_claim", late)


@mutant("liveness", "4")
def no_manager_does_anything(patch: pytest.MonkeyPatch) -> None:
    async def idle(context: Any) -> None:
        await context.stopping.wait()

    for name in ("event_gc", "shutdown_observer"):
        made = getattr(managers, name)
        patch.setattr(managers, name, lambda *a, made=made, **k: dataclasses.replace(made(*a, **k), run=idle))


@mutant("6")
def a_drain_deletes_pods_past_their_budgets(patch: pytest.MonkeyPatch) -> None:
    async def delete(self: Any, pod: Any) -> None:
        await self._client.of(Pod).delete(pod.name, namespace=pod.namespace, uid=pod.uid)

    patch.setattr(evictor.Evictor, "_send", delete)


@mutant("9", seed=6)
def a_forced_deletion_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom

    def force(state: Any, requested: Any, now: Any) -> Any:
        return deletion.Remove() if requested == 0 else decide(state, requested, now)

    patch.setattr(deletion, "decide_custom", force)


@mutant("9")
def knows_no_grace(patch: pytest.MonkeyPatch) -> None:
    decide = deletion.decide_custom
    patch.setattr(deletion, "decide_custom", lambda state, _requested, now: decide(state, None, now))


@mutant("10")
def never_says_that_the_node_goes_down(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, *_args: Any, **_options: Any) -> None:
        pass

    patch.setattr(status_writer.ShutdownStatusWriter, "publish", nothing)
    patch.setattr(status_writer.ShutdownStatusWriter, "cordon", nothing)


@mutant("10", "2", "liveness")
def lets_the_claimant_publish_the_states_of_a_shutdown(patch: pytest.MonkeyPatch) -> None:
    """Though the agent does, and has taken them back or gone further by the time the event is seen."""
    patch.setattr(Facts, "driver_writes_conditions", lambda _self, _event: False)


@mutant("10")
def ends_no_pod_when_the_machine_goes_down(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any) -> None:
        pass

    patch.setattr(pod_terminator.PodTerminator, "end_all", nothing)


@mutant("durability")
def forgets_transitions_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    opened = store.Store.open

    def lossy(self: Any, indexer: Any) -> None:
        load = self._log.load

        def some() -> tuple[int, Iterator[Row]]:
            compacted, rows = load()
            return compacted, (row for row in rows if not row.table.startswith("lifecycletransitions"))

        self._log.load = some
        opened(self, indexer)

    patch.setattr(store.Store, "open", lossy)


@mutant("linearizability")
def a_watch_calls_a_deletion_a_change(patch: pytest.MonkeyPatch) -> None:
    classify: Any = vars(watchers)["classify"]

    def wrong(selection: Any, change: Any) -> Any:
        event = classify(selection, change)
        return event if event is None or change.after is not None else ("MODIFIED", *event[1:])

    patch.setattr(watchers, "classify", wrong)


@mutant("linearizability")
def a_watch_goes_deaf(patch: pytest.MonkeyPatch) -> None:
    offer = watchers.Watcher.offer
    delivered: dict[int, int] = {}

    def deaf(self: Any, notice: Any, size: int) -> None:
        delivered[id(self)] = delivered.get(id(self), 0) + 1
        if delivered[id(self)] <= 60:
            offer(self, notice, size)

    patch.setattr(watchers.Watcher, "offer", deaf)


@mutant("no crash")
def the_server_fails_now_and_then(patch: pytest.MonkeyPatch) -> None:
    answer, count = dispatch.Dispatcher.answer, itertools.count(1)

    async def buggy(self: Any, request: Any, info: Any, user: Any) -> Any:
        response = await answer(self, request, info, user)
        if next(count) % 200 == 0:
            raise KeyError("metadata")
        return response

    patch.setattr(dispatch.Dispatcher, "answer", buggy)
