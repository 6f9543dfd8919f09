"""Watchers that do not read: they may cost the server a bounded amount of memory, and cost others nothing."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.testing import EmbeddedControlPlane
from fairlead.testing.control_plane import Access
from fairlead.testing.manifests import secret
from fairlead.testing.plugin import watch_over
from fairlead.testing.rawhttp import RawApi

EVENTS = 300
EVENT_BYTES = 20_000
PATH = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path))


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024


async def watch_without_reading(access: Access, context: ssl.SSLContext) -> asyncio.StreamWriter:
    host, _, port = access.url.removeprefix("https://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or the kernel would read for us
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname=host, limit=1024)
    head = [
        f"GET {PATH}?watch=true&resourceVersion=0 HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {access.token}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
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
            for writer in await asyncio.gather(*(watch_without_reading(access, context) for _ in range(50))):
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
