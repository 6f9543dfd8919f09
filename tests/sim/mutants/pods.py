"""Mistakes about pods and machines: invariants 6 and 10."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fairlead.agent.shutdown import conducting, keeper, podwriting
from fairlead.client import subresources
from fairlead.lifecycle import shutdown_plan, shutdown_recovery
from fairlead.lifecycle.drain import filters, options
from fairlead.sim.cast import machines
from tests.sim.mutants.registry import mutant

# ---- invariant 6


@mutant("6")
def evicts_whoever_has_the_name(patch: pytest.MonkeyPatch) -> None:
    evict = subresources.evict

    async def careless(*args: Any, **told: Any) -> None:
        await evict(*args, **{**told, "uid": ""})

    patch.setattr(subresources, "evict", careless)


@mutant("6")
def deletes_whoever_has_the_name(patch: pytest.MonkeyPatch) -> None:
    async def careless(self: Any, pod: Any, grace_seconds: int) -> None:
        await self._pods.delete(pod.name, namespace=pod.metadata.namespace, grace_period_seconds=grace_seconds)

    patch.setattr(podwriting.PodWriter, "_delete", careless)


@mutant("6")
def evicts_what_a_daemonset_brings_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "daemonset_of", lambda _pod: "")


@mutant("6")
def evicts_what_is_the_nodes_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "MIRROR_ANNOTATION", "no such annotation")


@mutant("6", seed=3)
def does_not_read_its_options(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(options, "parse", lambda _told, profile: profile)


# ---- invariant 10


@mutant("10", seed=7)
def ignores_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machines.SimMemory, "load", lambda _self: None)


@mutant("10", seed=11)
def counts_from_the_beginning_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    recover = shutdown_recovery.recover

    def anew(found: Any) -> Any:
        course = recover(found)
        return shutdown_recovery.Begin() if isinstance(course, shutdown_recovery.GoOn) else course

    patch.setattr(shutdown_recovery, "recover", anew)


@mutant("10")
def leaves_the_kubelet_running(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_args: object) -> None:
        return

    patch.setattr(keeper.Keeper, "_stop_kubelet", nothing)


@mutant("10")
def gives_each_pod_what_it_asks_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shutdown_plan.Stage, "grace_left", lambda _self, pod, *_args: float(pod.grace_seconds or 30) * 2)


@mutant("10")
def ends_what_matters_most_first(patch: pytest.MonkeyPatch) -> None:
    group_of = shutdown_plan.group_of
    patch.setattr(shutdown_plan, "group_of", lambda periods, priority: len(periods) - 1 - group_of(periods, priority))


@mutant("10")
def lets_go_before_it_is_told(patch: pytest.MonkeyPatch) -> None:
    """How a pod ended is neither told nor written down."""

    def silently(self: Any, pod: Any, _known: Any, _ends: Any) -> None:
        self._settled.add(pod.uid)

    patch.setattr(conducting.Conductor, "_ended", silently)


@mutant("10", "liveness", seed=2)
def takes_its_word_back_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    recover = shutdown_recovery.recover

    def forgetful(found: Any) -> Any:
        return recover(dataclasses.replace(found, preparing=False))

    patch.setattr(shutdown_recovery, "recover", forgetful)
