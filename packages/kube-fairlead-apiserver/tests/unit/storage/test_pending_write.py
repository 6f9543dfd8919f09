"""Writes that wait while the disk is full: which are tried again, in what pieces, and which are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.interface import DiskFull, Row
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.pending_write import SLACK_BYTES, leads_to_removal
from kube_fairlead_apiserver.storage.store import Store
from tests.unit.storage.test_store import put, running


class SmallDisk(MemoryLog):
    """So much room in all; a first reserve that is given up with `DiskFull`, a last one for removals and compaction."""

    def __init__(self, *, room: int, reserve: int, last: int) -> None:
        super().__init__()
        self.room, self.reserve, self.last = room, reserve, last
        self.batches: list[int] = []

    async def append(self, rows: Sequence[Row]) -> None:
        size = sum(len(row.value or b"") + 100 for row in rows)
        if size > self.room and self.reserve:
            self.room, self.reserve = self.room + self.reserve, 0
            raise DiskFull("no room")
        if size > self.room and all(row.value is None for row in rows):
            self.room, self.last = self.room + self.last, 0
        if size > self.room:
            raise DiskFull("no room")
        self.room -= size
        self.batches.append(len(rows))
        await super().append(rows)

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        self.reserve = 0
        await super().compact(revision, superseded)

    async def make_room(self) -> str | None:
        return None if self.reserve else "no room"


async def write(store: Store, key: str, size: int, *, expected: int = 0, freeing: bool = False) -> None:
    await store.put("pods", key, b'"x":"' + b"x" * size + b'"}', {}, {}, expected=expected, freeing=freeing)


async def failures(*writes: asyncio.Future[Any]) -> list[bool]:
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert all(result is None or isinstance(result, DiskFull) or hasattr(result, "revision") for result in results)
    return [isinstance(result, DiskFull) for result in results]


async def test_one_large_write_does_not_take_others_with_it() -> None:
    log = SmallDisk(room=20_000, reserve=100_000, last=5_000)
    async with running(log) as store:
        revisions = [await put(store, f"ns/{number}") for number in range(6)]
        begun = [
            asyncio.ensure_future(write(store, "ns/new", 50_000)),
            asyncio.ensure_future(write(store, "ns/0", 300_000, expected=revisions[0], freeing=True)),
            asyncio.ensure_future(write(store, "ns/1", 30_000, expected=revisions[1], freeing=True)),
            *(
                asyncio.ensure_future(store.remove("pods", f"ns/{number}", expected=revisions[number]))
                for number in range(2, 6)
            ),
        ]
        assert await failures(*begun) == [True, True, False, False, False, False, False]
        assert list(store.table("pods").entries) == ["ns/0", "ns/1"]


async def test_the_last_of_the_reserve_is_for_removals() -> None:
    log = SmallDisk(room=1_000, reserve=1_000, last=1_000)
    async with running(log) as store:
        revisions = [await put(store, f"ns/{number}") for number in range(4)]
        begun = [
            asyncio.ensure_future(write(store, "ns/0", 3_000, expected=revisions[0], freeing=True)),
            asyncio.ensure_future(store.remove("pods", "ns/1", expected=revisions[1])),
            asyncio.ensure_future(store.remove("pods", "ns/2", expected=revisions[2])),
        ]
        assert await failures(*begun) == [True, False, False]
        log.room = log.reserve = 0
        assert log.last
        with pytest.raises(DiskFull):
            await write(store, "ns/0", 500, expected=revisions[0], freeing=True)
        await store.remove("pods", "ns/3", expected=revisions[3])
        assert not log.last


async def test_what_builds_on_a_refused_write_is_refused_with_it() -> None:
    log = SmallDisk(room=1_000, reserve=1_000, last=1_000)
    async with running(log) as store:
        revision = await put(store, "ns/a")
        changed = asyncio.ensure_future(write(store, "ns/a", 3_000, expected=revision, freeing=True))
        removed = asyncio.ensure_future(store.remove("pods", "ns/a", expected=revision + 1))
        assert await failures(changed, removed) == [True, True]
        await store.remove("pods", "ns/a", expected=revision)


async def test_compaction_that_takes_the_reserve_says_so() -> None:
    log = SmallDisk(room=100_000, reserve=100_000, last=1_000)
    async with running(log) as store:
        await store.remove("pods", "ns/a", expected=await put(store, "ns/a"))
        await store.compact(store.revision)
        assert store.shortage == "no room", "writes of any kind would use up what is left"
        await asyncio.wait_for(store.wait_short(), 10)


@given(before=st.integers(0, 100_000), after=st.integers(0, 100_000))
def test_a_write_that_grows_uses_no_reserve(before: int, after: int) -> None:
    entry = Entry("k", 1, b"x" * before, {}, {}, None)
    assert leads_to_removal(entry, after) is (after <= before + SLACK_BYTES)
    assert not leads_to_removal(None, after)
