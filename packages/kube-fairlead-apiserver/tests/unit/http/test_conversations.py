"""A connection on a transport of memory: any requests, in any pieces, answered by any handler, never leave it deaf."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.connection_state import AHEAD_BYTES
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES, Request, Response, status_response
from tests.fuzz.conversation import READ_BYTES, converse


@dataclass(frozen=True)
class Asked:
    """One request: its body, how that is framed, and what the handler does with it."""

    size: int
    chunk: int  # 0: of declared length
    behaviour: str  # read, ignore, read late

    def wire(self, number: int) -> bytes:
        top = f"POST /{number}?do={self.behaviour.replace(' ', '-')} HTTP/1.1\r\nhost: h\r\n".encode()
        if not self.chunk:
            return top + b"content-length: %d\r\n\r\n" % self.size + b"x" * self.size
        chunk = max(self.chunk, self.size // 2000)  # more chunks only take time
        whole, rest = divmod(self.size, chunk)
        chunks = (b"%x\r\n%b\r\n" % (chunk, b"x" * chunk)) * whole
        chunks += b"%x\r\n%b\r\n" % (rest, b"x" * rest) if rest else b""
        return top + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\nauthorization: trailer\r\n\r\n"


async def handle(request: Request) -> Response:
    assert "authorization" not in request.headers, "a trailer was taken for a header"
    do = request.query.get("do")
    if do == "ignore":
        return Response(403, b"no")
    if do == "read-late":
        for _ in range(5):
            await asyncio.sleep(0)
    try:
        body = await request.read_body()
    except errors.ApiError as error:
        return status_response(error)
    assert "authorization" not in dict(request.header_list), "a trailer was taken for a header"
    return Response(200, b"%d" % len(body))


LIMITS = [0, 1, AHEAD_BYTES - 1, AHEAD_BYTES, AHEAD_BYTES + 1, 2 * AHEAD_BYTES, 200_000]
requests = st.builds(
    Asked,
    size=st.one_of(st.integers(0, 200), st.sampled_from([*LIMITS, MAX_BODY_BYTES, MAX_BODY_BYTES + 1])),
    chunk=st.sampled_from([0, 0, 7, 4096, 100_000]),
    behaviour=st.sampled_from(["read", "ignore", "read late"]),
)
# Zero gives the server a few turns between two pieces.
cuts = st.lists(st.sampled_from([0, 1, 7, 100, 1460, 16_384, 65_536, READ_BYTES]), min_size=1, max_size=8)


@given(asked=st.lists(requests, min_size=1, max_size=6), cuts=cuts)
@settings(max_examples=100)
@example(asked=[Asked(90_000, 0, "read")] * 3, cuts=[READ_BYTES])
@example(asked=[Asked(90_000, 0, "read")] * 3, cuts=[READ_BYTES, 0])
@example(asked=[Asked(90_000, 4096, "read late")] * 3, cuts=[1460])
def test_no_conversation_leaves_the_connection_deaf(asked: list[Asked], cuts: list[int]) -> None:
    stream = b"".join(request.wire(number) for number, request in enumerate(asked))
    # Small cuts of large bodies only take time.
    least = len(stream) // 1000
    steps = iter(range(10**9))
    wire, left = asyncio.run(converse(handle, stream, lambda: _cut(cuts, next(steps), least)))
    answers = re.findall(rb"HTTP/1.1 (\d+) [^\r]*\r\n(.*?)\r\n\r\n", bytes(wire.sent), re.DOTALL)
    last_says_close = b"connection: close" in answers[-1][1] if answers else False
    for (code, _), request in zip(answers, asked, strict=False):
        expected = 403 if request.behaviour == "ignore" else 413 if request.size > MAX_BODY_BYTES else 200
        assert int(code) == expected
    if not last_says_close:
        assert left == 0
        assert len(answers) == len(asked)
    else:
        # Only a body that was not read to its end may cost the client its connection.
        last = asked[len(answers) - 1]
        assert last.behaviour == "ignore" or last.size > MAX_BODY_BYTES
        assert wire.closed or wire.reading


def _cut(cuts: list[int], step: int, least: int) -> int:
    size = cuts[step % len(cuts)]
    return size if size == 0 and any(cuts) else max(size, least, 1)
