"""Any sequence of deletes, finalizer changes and clock steps, on two servers of different age.

What must hold (the numbers are cited below):
1. The deadline of an object only moves earlier.
2. No finalizer left means gone, whatever grace is left.
3. Nothing without a finalizer lingers after a delete.
4. No sequence makes an object undeletable: take its finalizers away, delete it if nobody has yet, and it is gone.
5. Only a delete begins or moves a deadline: finalizers and time do not.
6. A delete removes nothing that a controller's finalizer holds, and only the last finalizer's end removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client.patches import MergePatch
from tests.spec.kep5673.inprocess import GROUP, Cluster, running

Json = dict[str, Any]
FINALIZERS = ("example.com/a", "example.com/b")


@dataclasses.dataclass(frozen=True)
class Delete:
    grace: int | None
    policy: str = ""
    collection: bool = False
    older: bool = False


@dataclasses.dataclass(frozen=True)
class Finalizers:
    kept: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Wait:
    seconds: int


Step = Delete | Finalizers | Wait

graces = st.one_of(
    st.none(), st.just(0), st.integers(min_value=-5, max_value=400), st.just(2**63 - 1), st.just(-(2**63))
)
deletes = st.builds(
    Delete,
    graces,
    policy=st.sampled_from(["", "", "Background", "Foreground", "Orphan"]),
    collection=st.booleans(),
    older=st.sampled_from([False, False, True]),
)
finalizers = st.builds(Finalizers, st.sampled_from([(), FINALIZERS[:1], FINALIZERS[1:], FINALIZERS]))
waits = st.builds(Wait, st.integers(min_value=0, max_value=500))


@pytest.fixture(scope="module")
def machine_room() -> Iterator[MachineRoom]:
    room = MachineRoom()
    with asyncio.Runner() as runner:
        room.runner = runner
        stack = contextlib.AsyncExitStack()
        room.cluster = runner.run(stack.enter_async_context(running(room.clock)))
        yield room
        runner.run(stack.aclose())


class MachineRoom:
    """One server for all examples: each has an object of its own name."""

    runner: asyncio.Runner
    cluster: Cluster

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.numbers = itertools.count()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.runner.run(work)


class Machine:
    """One object, and what was seen of it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.api = cluster.machines
        self.name = name
        self.seen: Json | None = None

    async def create(self, held_by: tuple[str, ...]) -> None:
        metadata = {"name": self.name, "labels": {"name": self.name}, "finalizers": list(held_by)}
        made = {"apiVersion": f"{GROUP}/v1", "kind": "Machine", "metadata": metadata}
        self.seen = await self.api.create(made, namespace="default")

    async def take(self, step: Step) -> None:
        before = self.seen
        match step:
            case Wait(seconds):
                await self.cluster.clock.advance(seconds)
            case Finalizers(kept):
                await self._set_finalizers(kept)
            case Delete():
                await self._delete(step)
        after = await self._look()
        self._check(step, before, after)
        # The garbage collector takes its own finalizers away in its own time, which is no time here.
        await self.cluster.clock.settle()
        settled = await self._look()
        self._check(Wait(0), after, settled)
        self.seen = settled

    async def end(self) -> None:
        """Invariant 4."""
        if self.seen is None:
            return
        await self._set_finalizers(())
        if await self._look() is not None:
            await self._delete(Delete(None))
        assert await self._look() is None, "4: undeletable"

    async def _set_finalizers(self, kept: tuple[str, ...]) -> None:
        # Refused where it adds one to an object that is being deleted.
        with contextlib.suppress(errors.NotFound, errors.Invalid):
            patch = MergePatch({"metadata": {"finalizers": list(kept)}})
            await self.api.patch(self.name, patch, namespace="default")

    async def _delete(self, step: Delete) -> None:
        server = self.cluster.older() if step.older else contextlib.nullcontext()
        options: Json = {
            "namespace": "default",
            "grace_period_seconds": step.grace,
            "propagation_policy": step.policy,
        }
        with server, contextlib.suppress(errors.NotFound):
            if step.collection:
                await self.api.delete_collection(label_selector=f"name={self.name}", **options)
            else:
                await self.api.delete(self.name, **options)

    async def _look(self) -> Json | None:
        try:
            return await self.api.get(self.name, namespace="default")
        except errors.NotFound:
            return None

    @staticmethod
    def _check(step: Step, before: Json | None, after: Json | None) -> None:
        if after is None:
            held = before is not None and set(FINALIZERS) & set(before["metadata"].get("finalizers", ()))
            assert not held or isinstance(step, Finalizers), "6: removed in spite of a finalizer"
            return
        metadata = after["metadata"]
        stamp = metadata.get("deletionTimestamp")
        assert not stamp or metadata.get("finalizers"), "2: deleted, without a finalizer, and still there"
        assert before is not None
        earlier = before["metadata"].get("deletionTimestamp")
        if earlier:
            assert stamp, "1: a deletion was taken back"
            assert stamp <= earlier, "1: the deadline moved later"
        if isinstance(step, Delete):
            assert stamp, "3: deleted, and nothing shows"
        else:
            assert stamp == earlier, "5: somebody else moved the deadline"


@settings(max_examples=300, deadline=None)
@given(
    held_by=st.sampled_from([(), FINALIZERS[:1], FINALIZERS]),
    steps=st.lists(st.one_of(deletes, finalizers, waits), max_size=12),
)
@example(held_by=FINALIZERS[:1], steps=[Delete(60), Wait(5), Finalizers(())])
@example(held_by=FINALIZERS[:1], steps=[Delete(300), Wait(100), Delete(10), Wait(5), Delete(30), Delete(0)])
@example(held_by=(), steps=[Delete(30, policy="Foreground")])
@example(held_by=FINALIZERS[:1], steps=[Delete(300), Delete(None, older=True), Delete(600)])
def test_any_sequence(machine_room: MachineRoom, held_by: tuple[str, ...], steps: list[Step]) -> None:
    async def play() -> None:
        machine = Machine(machine_room.cluster, f"m{next(machine_room.numbers)}")
        await machine.create(held_by)
        for step in steps:
            await machine.take(step)
        await machine.end()

    machine_room.run(play())
