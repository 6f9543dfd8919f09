"""Mutants of pods and machines: invariants 6 and 10."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

import msgspec
import pytest

from kube_fairlead.agent.shutdown import manager, pod_results, pod_terminator, pod_writer
from kube_fairlead.client import subresources
from kube_fairlead.lifecycle import shutdown_plan, shutdown_recovery
from kube_fairlead.lifecycle.drain import filters, options
from kube_fairlead_lab.sim.actors import machines
from tests.sim.mutants.registry import mutant

# ---- invariant 6


@mutant("6")
def evicts_whoever_has_the_name(patch: pytest.MonkeyPatch) -> None:
    evict = subresources.evict

    async def careless(*args: Any, **arguments: Any) -> None:
        await evict(*args, **{**arguments, "uid": ""})

    patch.setattr(subresources, "evict", careless)


@mutant("6")
def deletes_whoever_has_the_name(patch: pytest.MonkeyPatch) -> None:
    async def careless(self: Any, pod: Any, grace_seconds: int) -> None:
        await self._pods.delete(pod.name, namespace=pod.metadata.namespace, grace_period_seconds=grace_seconds)

    patch.setattr(pod_writer.PodWriter, "_delete", careless)


@mutant("6")
def evicts_what_a_daemonset_brings_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "daemonset_of", lambda _pod: "")


@mutant("6")
def evicts_what_is_the_nodes_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "MIRROR_ANNOTATION", "no such annotation")


@mutant("6", seed=3)
def does_not_read_its_options(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(options, "parse", lambda _options, profile: profile)


# ---- invariant 10


@mutant("10", seed=3002)
def ignores_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machines.SimMemory, "load", lambda _self: None)


@mutant("10", seed=11)
def counts_from_the_beginning_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    recover = shutdown_recovery.recover

    def anew(found: Any) -> Any:
        course = recover(found)
        return shutdown_recovery.Begin() if isinstance(course, shutdown_recovery.Resume) else course

    patch.setattr(shutdown_recovery, "recover", anew)


@mutant("10")
def leaves_the_kubelet_running(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_args: object) -> None:
        return

    patch.setattr(manager.ShutdownManager, "_stop_kubelet", nothing)


@mutant("10")
def gives_each_pod_what_it_asks_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        shutdown_plan.ActiveGroup, "grace_left", lambda _self, pod, *_args: float(pod.grace_seconds or 30) * 2
    )


@mutant("10")
def ends_what_matters_most_first(patch: pytest.MonkeyPatch) -> None:
    group_of = shutdown_plan.group_of
    patch.setattr(shutdown_plan, "group_of", lambda periods, priority: len(periods) - 1 - group_of(periods, priority))


@mutant("10")
def lets_go_before_it_is_told(patch: pytest.MonkeyPatch) -> None:
    """The end of a pod is neither reported nor stored."""

    def silently(self: Any, pod: Any, _ends: Any) -> None:
        self.settled.add(pod.uid)
        self._progress.change(msgspec.structs.replace(self._progress.state, unseen=()))

    patch.setattr(pod_results.PodResults, "ended", silently)


@mutant("10")
def leaves_out_of_the_record_who_outlives_its_group(patch: pytest.MonkeyPatch) -> None:
    """Half a second after the group's time a pod is ignored, whether it has ended or not."""
    end_group = pod_terminator.PodTerminator._end_group

    async def impatient(self: Any, stage: Any, members: Any) -> None:
        await end_group(self, stage, members)
        if late := [self._terminating[pod.uid] for pod in members if not self._terminating[pod.uid].done()]:
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(0.5):
                    await asyncio.wait(late)
        for pod in members:
            if not self._terminating[pod.uid].done():
                self._terminating[pod.uid].cancel()
                left = tuple(one for one in self._progress.state.unseen if one.running().uid != pod.uid)
                self._progress.change(msgspec.structs.replace(self._progress.state, unseen=left))

    async def no_look(_self: Any) -> None:
        return

    patch.setattr(pod_terminator.PodTerminator, "_end_group", impatient)
    patch.setattr(pod_terminator.PodTerminator, "_observe_unseen", no_look)


@mutant("10", seed=3009)
def waits_for_the_api_in_the_time_of_the_pod(patch: pytest.MonkeyPatch) -> None:
    end_group = pod_terminator.PodTerminator._end_group

    async def patiently(self: Any, stage: Any, members: Any) -> None:
        await self._clock.sleep(2.5)
        await end_group(self, stage, members)

    patch.setattr(pod_terminator.PodTerminator, "_end_group", patiently)


@mutant("10", "liveness", seed=2)
def takes_its_word_back_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    recover = shutdown_recovery.recover

    def forgetful(found: Any) -> Any:
        return recover(dataclasses.replace(found, preparing=False))

    patch.setattr(shutdown_recovery, "recover", forgetful)
