from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.client import errors, watch
from tests.unit.client import scripted

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


@given(
    st.lists(st.binary(min_size=1, max_size=20).map(lambda line: line.replace(b"\n", b"x").strip() or b"x")),
    st.lists(st.integers(min_value=0, max_value=200)),
)
def test_frames_do_not_depend_on_chunks(lines: Sequence[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = watch.FrameSplitter()
    found = [frame for start, end in itertools.pairwise(places) for frame in splitter.feed(stream[start:end])]
    assert found == list(lines)
    assert splitter.rest == b""


def test_an_unfinished_frame_is_kept() -> None:
    splitter = watch.FrameSplitter()
    assert list(splitter.feed(b'{"a":1}\n{"b"')) == [b'{"a":1}']
    assert splitter.rest == b'{"b"'


async def collect(server: scripted.ScriptedServer) -> list[watch.WatchEvent[dict[str, object]]]:
    found: list[watch.WatchEvent[dict[str, object]]] = []
    async with (
        scripted.client_for(server.url) as client,
        client.of(CONFIG_MAPS).watch(resource_version="1") as events,
    ):
        async for event in events:
            found.append(event)  # noqa: PERF401 - an error must not lose what came before it
    return found


async def test_a_stream_that_the_server_ends() -> None:
    first, second = scripted.frame("ADDED", scripted.config_map("a", 2)), scripted.bookmark(3)
    async with scripted.serving() as server:
        server.script(scripted.streams(first[:10], first[10:] + second[:3], second[3:]))
        assert [event.resource_version for event in await collect(server)] == ["2", "3"]
        assert server.seen[0].query == {
            "watch": "true",
            "resourceVersion": "1",
            "allowWatchBookmarks": "true",
        }


@pytest.mark.parametrize(
    "chunks",
    [
        [b""],
        [scripted.frame("ADDED", scripted.config_map("a", 2))],
        [scripted.frame("ADDED", scripted.config_map("a", 2))[:30]],
    ],
)
async def test_a_stream_that_is_cut_off(chunks: list[bytes]) -> None:
    async with scripted.serving() as server:
        server.script(scripted.streams(*chunks, then="cut"))
        with pytest.raises(errors.WatchBroken):
            await collect(server)


async def test_a_stream_that_ends_inside_an_event_is_broken_too() -> None:
    async with scripted.serving() as server:
        server.script(scripted.streams(scripted.frame("ADDED", scripted.config_map("a", 2))[:30]))
        with pytest.raises(errors.WatchBroken, match="in the middle of an event"):
            await collect(server)


async def test_a_refused_watch_raises_the_servers_error() -> None:
    async with scripted.serving() as server:
        server.script(scripted.answers(scripted.status(410, "Expired"), status=410))
        with pytest.raises(api_errors.Expired):
            await collect(server)


async def test_leaving_a_watch_hangs_up() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(scripted.streams(scripted.frame("ADDED", scripted.config_map("a", 2)), then="silence"))
        async with client.of(CONFIG_MAPS).watch(resource_version="1") as events:
            assert (await anext(events)).resource_version == "2"
    # The server's shutdown waits for its handlers: getting here means that they ended.
