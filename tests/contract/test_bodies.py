"""Bodies of every size, in pieces of every size, one after another over one connection: each is answered at once.

The connection is kept alive all the time: a server that stops to read it answers the next request late or never.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import ssl
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from kube_fairlead_lab.testing.control_plane import ControlPlane
from tests.rawline import Line

MAX_BODY_BYTES = 3 << 20
SIZES = [1_000, 65_536, 65_600, 90_000, 300_000, 1_000_000, 2_000_000, MAX_BODY_BYTES]
PIECES = [1, 7, 100, 1_460, 16_384, 65_536, MAX_BODY_BYTES]
# In smaller pieces a body only takes longer.
MAX_PIECES = 70_000
PAIRS = [(size, piece) for piece in PIECES for size in SIZES if size // piece <= MAX_PIECES]


def body_of(size: int) -> bytes:
    """A ConfigMap of exactly so many bytes."""
    empty = json.dumps({"metadata": {"name": "x"}, "data": {"k": ""}})
    return empty.replace('""', f'"{"v" * (size - len(empty))}"').encode()


def expected(size: int) -> int:
    """A ConfigMap may hold 1 MiB of data; more is no mistake of HTTP."""
    return 201 if size <= 2**20 else 422


@pytest.fixture
def line(control_plane: ControlPlane, namespace: str) -> Iterator[Line]:
    made = Line(control_plane.access(), f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All")
    yield made
    made.close()


async def test_raw_sockets(line: Line) -> None:
    codes = await asyncio.to_thread(lambda: [line.post(body_of(size), piece) for size, piece in PAIRS])
    assert codes == [expected(size) for size, _ in PAIRS]


async def test_in_chunks(line: Line) -> None:
    def post(size: int, chunk: int) -> int:
        body = body_of(size)
        chunks = [body[start : start + chunk] for start in range(0, size, chunk)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in chunks)
        line.send(line.head("Transfer-Encoding: chunked") + framed + b"0\r\n\r\n")
        return line.answer()[0]

    pairs = [(size, piece) for size, piece in PAIRS if piece >= 7]
    codes = await asyncio.to_thread(lambda: [post(size, piece) for size, piece in pairs])
    assert codes == [expected(size) for size, _ in pairs]


async def test_pipelined(line: Line) -> None:
    def post() -> list[int]:
        body = body_of(90_000)
        line.send((line.head(f"Content-Length: {len(body)}") + body) * 12)
        return [line.answer()[0] for _ in range(12)]

    assert await asyncio.to_thread(post) == [201] * 12


async def test_the_client_waits_to_be_asked(line: Line) -> None:
    def post(size: int, piece: int) -> int:
        body = body_of(size)
        line.send(line.head(f"Content-Length: {size}", "Expect: 100-continue"))
        code, _, _ = line.answer()
        assert code == 100
        line.send(body, piece)
        return line.answer()[0]

    pairs = [(size, piece) for size, piece in PAIRS if piece >= 1_460]
    codes = await asyncio.to_thread(lambda: [post(size, piece) for size, piece in pairs])
    assert codes == [expected(size) for size, _ in pairs]


REFUSALS = {
    401: {"token": "wrong"},
    403: {"path": "/api/v1/namespaces/default/configmaps", "token": ""},
    404: {"path": "/apis/none.example.com/v1/things"},
    405: {"path": "/api/v1/namespaces/default", "method": "POST"},
}


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("size", [1_000, 90_000, 300_000, MAX_BODY_BYTES])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_refused_unread(line: Line, code: int, size: int, chunked: bool) -> None:
    """The client either goes on with the connection or reads in the answer that it cannot: it is never left waiting."""
    options: dict[str, Any] = REFUSALS[code]
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, body_of(size)) if chunked else body_of(size)
    await asyncio.to_thread(refuse, line, line.head(framing, **options) + body, code)


def refuse(line: Line, request: bytes, code: int) -> None:
    for _ in range(3):
        line.send(request)
        got, headers, _ = line.answer()
        assert got == code
        if headers.get("connection") == "close":
            assert line.socket.recv(1) == b""
            return
    assert line.post(body_of(1_000), 1_000) == 201


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large(line: Line, chunked: bool) -> None:
    size = MAX_BODY_BYTES + 1
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size) if chunked else b"x" * size
    await asyncio.to_thread(refuse, line, line.head(framing) + body, 413)


async def test_http_client(control_plane: ControlPlane, namespace: str) -> None:
    access = control_plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/json"}

    def post_all() -> list[int]:
        connection = http.client.HTTPSConnection(access.url.removeprefix("https://"), context=context, timeout=30)
        codes = []
        for size, piece in PAIRS:
            connection.blocksize = piece
            body = body_of(size)
            sent = io.BytesIO(body) if size // piece <= 2_000 else body
            path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
            connection.request("POST", path, sent, {**headers, "Content-Length": str(size)})
            response = connection.getresponse()
            response.read()
            assert not response.will_close
            codes.append(response.status)
        connection.close()
        return codes

    assert await asyncio.to_thread(post_all) == [expected(size) for size, _ in PAIRS]


async def test_aiohttp(control_plane: ControlPlane, namespace: str) -> None:
    access = control_plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/json"}
    pairs = [(size, piece) for size, piece in PAIRS if size // piece <= 2_000]

    async def pieces(body: bytes, piece: int) -> Any:
        for start in range(0, len(body), piece):
            yield body[start : start + piece]

    connector = aiohttp.TCPConnector(ssl=context, limit=1)
    timeout = aiohttp.ClientTimeout(total=30)
    codes = []
    async with aiohttp.ClientSession(access.url, connector=connector, headers=headers, timeout=timeout) as session:
        for size, piece in pairs:
            path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
            async with session.post(path, data=pieces(body_of(size), piece)) as response:
                await response.read()
                codes.append(response.status)
    assert codes == [expected(size) for size, _ in pairs]
