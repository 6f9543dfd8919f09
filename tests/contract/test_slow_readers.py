"""Clients that do not read: they may cost the server a bounded amount of memory, and cost others nothing."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.manifests import config_map, secret
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi

EVENTS = 300
EVENT_BYTES = 20_000
OBJECTS = 250
EACH = 10
PATH = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path))


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024


async def ask(
    access: Access, context: ssl.SSLContext, query: str, accept: str = "*/*", *, path: str = PATH, limit: int = 1024
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask, and let neither the kernel nor asyncio read more than the first few bytes of the answer."""
    host, _, port = access.url.removeprefix("https://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname=host, limit=limit)
    # HTTP/1.0: the body is sent as it is.
    head = [f"GET {path}?{query} HTTP/1.0", f"Host: {host}", f"Accept: {accept}"]
    writer.write("\r\n".join([*head, f"Authorization: Bearer {access.token}", "", ""]).encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    return reader, writer


async def ask_without_reading(
    access: Access,
    context: ssl.SSLContext,
    query: str = "watch=true&resourceVersion=0",
    accept: str = "*/*",
    *,
    path: str = PATH,
) -> asyncio.StreamWriter:
    _, writer = await ask(access, context, query, accept, path=path)
    return writer


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize(("readers", "bound_megabytes"), [(100, 100), pytest.param(1_000, 300, marks=pytest.mark.long)])
async def test_so_many_of_them(plane: EmbeddedControlPlane, readers: int, bound_megabytes: int) -> None:
    """If all that they do not read were kept for each, it would be 6 MB for every one of them."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    async with RawApi(access) as api, contextlib.AsyncExitStack() as stack:
        for _ in range(readers // 50):
            for writer in await asyncio.gather(*(ask_without_reading(access, context) for _ in range(50))):
                stack.push_async_callback(hang_up, writer)
        before = resident_bytes(plane.apiserver.pid)
        version = (await api.get(PATH)).expect(200)["metadata"]["resourceVersion"]
        async with api.watch(PATH, resourceVersion=version) as watch:
            for number in range(EVENTS):
                (await api.post(PATH, secret(f"s{number}", {"k": "x" * EVENT_BYTES}))).expect(201)
            names = [(await watch.next())["object"]["metadata"]["name"] for _ in range(EVENTS)]
        assert names == [f"s{number}" for number in range(EVENTS)]
        assert resident_bytes(plane.apiserver.pid) - before < bound_megabytes * 2**20
        assert (await api.get("/readyz")).text == "ok"
    # With the slow ones gone the server is as it was.
    async with RawApi(access) as api:
        assert len((await api.get(PATH)).expect(200)["items"]) == EVENTS


STATE = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
QUESTIONS = [
    ("watch=true&resourceVersion=0", "application/json"),
    (STATE, "application/json"),
    (STATE + "&includeObject=Object", TABLE),
    (STATE, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ("", "application/json"),
    ("limit=1000", "application/json"),
    ("pretty=true", "application/json"),
    ("includeObject=Object", TABLE),
    ("", "application/yaml"),
]


async def annotate_all(api: RawApi, text: str) -> None:
    patch = {"metadata": {"annotations": {"n": text}}}
    for first in range(0, OBJECTS, 50):
        answers = await asyncio.gather(*(api.patch(f"{PATH}/s{first + n}", patch) for n in range(50)))
        assert {answer.code for answer in answers} == {200}


async def until_below(pid: int, size: float) -> None:
    """Return when the server holds less; the test's own time limit ends it otherwise."""
    clock = RealClock()
    while resident_bytes(pid) >= size:
        await clock.sleep(0.2)


async def test_none_of_them_holds_a_copy_of_the_collection(plane: EmbeddedControlPlane) -> None:
    """A copy for each would be 450 MB and more, even if nothing were written."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    pid = plane.apiserver.pid
    async with RawApi(access) as api:
        for first in range(0, OBJECTS, 50):
            made = (api.post(PATH, secret(f"s{first + n}", {"k": "x" * EVENT_BYTES})) for n in range(50))
            assert {answer.code for answer in await asyncio.gather(*made)} == {201}
        # So much history is kept, with readers or without.
        await annotate_all(api, "first")
        await annotate_all(api, "second")
        await annotate_all(api, "third")
        before = resident_bytes(pid)
        async with contextlib.AsyncExitStack() as stack:
            for question in QUESTIONS:
                asking = (ask_without_reading(access, context, *question) for _ in range(EACH))
                for writer in await asyncio.gather(*asking):
                    stack.push_async_callback(hang_up, writer)
            await annotate_all(api, "fourth")
            held = resident_bytes(pid) - before
            assert held < len(QUESTIONS) * EACH * 600_000
        await until_below(pid, 1.2 * before)
        assert len((await api.get(PATH)).expect(200)["items"]) == OBJECTS


METADATA = "application/json;as=PartialObjectMetadata%s;v=v1;g=meta.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
# Forms that need no copy of an object, and those that are made for each reader.
SHARED = [
    ("watch=true&resourceVersion=0", "application/json"),
    (STATE, "application/json"),
    ("", "application/json"),
    ("limit=5", "application/json"),
    ("", METADATA % "List"),
    (STATE, METADATA % ""),
    ("", TABLE),
    (STATE, TABLE),
]
MADE = [
    ("includeObject=Object", TABLE),
    (STATE + "&includeObject=Object", TABLE),
    ("pretty=true", "application/json"),
    ("", "application/yaml"),
]


async def ask_of_large_objects(
    plane: EmbeddedControlPlane, questions: list[tuple[str, str]], each: int
) -> AsyncIterator[int]:
    """How many bytes the server has more than before, while so many clients ask each question and do not read."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    async with RawApi(access) as api, contextlib.AsyncExitStack() as stack:
        for number in range(12):
            (await api.post(MAPS, config_map(f"large-{number}", {"k": "x" * 900_000}))).expect(201)
        before = resident_bytes(plane.apiserver.pid)
        for question in questions:
            for _ in range(each // 10):
                asking = (ask(access, context, *question, path=MAPS) for _ in range(10))
                for answer in await asyncio.gather(*asking, return_exceptions=True):
                    if isinstance(answer, OSError | asyncio.IncompleteReadError):
                        continue  # hung up on, for there are too many
                    assert not isinstance(answer, BaseException)
                    stack.push_async_callback(hang_up, answer[1])
                yield resident_bytes(plane.apiserver.pid) - before
        assert (await api.get("/readyz")).text == "ok"


@pytest.mark.parametrize("each", [10, pytest.param(200, marks=pytest.mark.long)])
async def test_large_objects_are_not_copied_for_them(plane: EmbeddedControlPlane, each: int) -> None:
    """A copy of one object for each would be a megabyte and more."""
    readers = 0
    async for held in ask_of_large_objects(plane, SHARED, each):
        readers += 10
        assert held < 20 * 2**20 + readers * 250_000


@pytest.mark.long
async def test_what_must_be_made_for_them_is_counted(plane: EmbeddedControlPlane) -> None:
    """A megabyte for each of 600 of them; when all take more than the budget, the first ones are hung up on."""
    held = [held async for held in ask_of_large_objects(plane, MADE, 150)]
    assert max(held) < 300 * 2**20


async def test_one_that_should_end_is_not_waited_for(plane: EmbeddedControlPlane) -> None:
    """timeoutSeconds is kept, whether the client reads or not."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    async with RawApi(access) as api:
        for number in range(30):
            (await api.post(PATH, secret(f"s{number}", {"k": "x" * EVENT_BYTES}))).expect(201)
        writer = await ask_without_reading(access, context, "watch=true&resourceVersion=0&timeoutSeconds=2")
        open_watches = 'apiserver_longrunning_requests{verb="WATCH"} 1'
        assert open_watches in (await api.get("/metrics")).text
        await api.poll("/metrics", lambda answer: open_watches not in answer.text)
        await hang_up(writer)


async def lines_until_the_end(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Whole events; the end may come in the middle of one."""
    await reader.readuntil(b"\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        while (line := await reader.readline()).endswith(b"\n"):
            yield msgspec.json.decode(line)


async def test_one_that_falls_behind_is_closed_and_resumes(plane: EmbeddedControlPlane) -> None:
    """It is hung up on, at the latest, while it does not read; nothing is lost to it, and it gets no 410."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    changes = 400
    async with RawApi(access) as api:
        (await api.post(PATH, secret("s", {"k": "x" * EVENT_BYTES}))).expect(201)
        version = (await api.get(PATH)).expect(200)["metadata"]["resourceVersion"]
        reader, writer = await ask(access, context, f"watch=true&resourceVersion={version}", limit=2**16)
        for number in range(changes):
            patch = {"metadata": {"annotations": {"n": str(number)}}}
            (await api.patch(f"{PATH}/s", patch)).expect(200)
        seen = []
        async for event in lines_until_the_end(reader):
            seen.append(event["object"]["metadata"]["annotations"]["n"])
            version = event["object"]["metadata"]["resourceVersion"]
        await hang_up(writer)
        assert len(seen) < changes
        async with api.watch(PATH, resourceVersion=version) as watch:
            while len(seen) < changes:
                seen.append((await watch.next())["object"]["metadata"]["annotations"]["n"])
        assert seen == [str(number) for number in range(changes)]
