from __future__ import annotations

import gzip
import http.client
import io
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kube_fairlead.client import http1
from kube_fairlead.client.http1 import AnswerParser, MalformedAnswer

HEADER_TEXT = st.text("abc XYZ09,;=/\"'()é", max_size=12).map(str.strip)
HEADERS = st.lists(st.tuples(st.sampled_from(["X-A", "x-b", "Audit-Id", "Warning"]), HEADER_TEXT), max_size=4)


def parsed(data: bytes, cuts: Sequence[int] = (), method: str = "GET") -> tuple[AnswerParser, bytes]:
    """The answer in bytes that arrive in pieces, each as long as a cut says; the rest at once."""
    parser, body = AnswerParser(method), b""
    for cut in cuts:
        parser.feed(data[:cut])
        body += parser.take()
        data = data[cut:]
    parser.feed(data)
    return parser, body + parser.take()


class Bytes(io.BytesIO):
    def makefile(self, *_: object) -> Bytes:
        return self


def chunked(parts: Sequence[bytes], trailer: bytes = b"") -> bytes:
    pieces = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part]
    return b"".join(pieces) + b"0\r\n" + trailer + b"\r\n"


@given(
    status=st.sampled_from([200, 201, 204, 304, 400, 404, 500]),
    headers=HEADERS,
    parts=st.lists(st.binary(max_size=40), max_size=5),
    in_chunks=st.booleans(),
    method=st.sampled_from(["GET", "HEAD", "POST"]),
    cuts=st.lists(st.integers(0, 9), max_size=60),
    interim=st.booleans(),
)
def test_answers_are_read_as_pythons_own_client_reads_them(
    status: int,
    headers: list[tuple[str, str]],
    parts: list[bytes],
    in_chunks: bool,
    method: str,
    cuts: list[int],
    interim: bool,
) -> None:
    has_body = method != "HEAD" and status not in {204, 304}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
    if in_chunks:
        head, body = head + b"Transfer-Encoding: chunked\r\n", chunked(parts)
    else:
        body = b"".join(parts)
        head += b"Content-Length: %d\r\n" % len(body)
    data = b"HTTP/1.1 %d Words here\r\n%s\r\n%s" % (status, head, body if has_body else b"")
    expected = http.client.HTTPResponse(Bytes(data), method=method)  # type: ignore[arg-type]  # it is asked for a file
    expected.begin()
    parser, read = parsed((b"HTTP/1.1 100 Continue\r\n\r\n" if interim else b"") + data, cuts, method)
    assert (parser.status, parser.reason, read) == (
        expected.status,
        expected.reason,
        expected.read() if has_body else b"",
    )
    for name, value in expected.headers.items():
        # Python's client decodes Latin-1.
        if expected.headers.get_all(name) == [value]:
            assert parser.headers[name.lower()] == value.encode("latin-1").decode()
    assert parser.is_complete
    assert parser.is_reusable


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 9), max_size=60))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", [3, 1])
def test_the_same_bytes_are_the_same_answer_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    def outcome(cuts: Sequence[int]) -> object:
        try:
            parser, body = parsed(data, cuts)
        except MalformedAnswer:
            return "malformed"
        return parser.status, dict(parser.headers), body, parser.is_complete, parser.is_reusable

    assert outcome(cuts) == outcome(())


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 99 x\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Content-Length: +3\r\n\r\n",
        OK + b"Content-Length: 3, 3\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"A : b\r\n\r\n",
        OK + b"A: b\r\n folded\r\n\r\n",
        OK + b"A: b\0c\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-3\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_not_plainly_http_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        parsed(data)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"A: " + b"x" * http1.MAX_HEAD_BYTES,
        OK + b"A: b\r\n" * http1.MAX_HEAD_BYTES,
        b"HTTP/1.1 100 Continue\r\n\r\n" * http1.MAX_HEAD_BYTES,
        OK + b"Transfer-Encoding: chunked\r\n\r\n3;" + b"x" * 1024,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * http1.MAX_HEAD_BYTES,
    ],
    ids=["header", "head", "interim answers", "size of a chunk", "trailers"],
)
def test_what_has_no_end_is_rejected_at_its_limit(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        parsed(data)


def test_a_head_of_the_limit_is_read_and_one_byte_more_is_not() -> None:
    room = http1.MAX_HEAD_BYTES - len(OK + b"A: \r\n\r\n")
    assert parsed(OK + b"A: " + b"x" * room + b"\r\n\r\n")[0].status == 200
    with pytest.raises(MalformedAnswer):
        parsed(OK + b"A: " + b"x" * (room + 1) + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (OK + b"Content-Length: 0\r\n\r\n", True),
        (OK + b"Content-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (OK + b"Content-Length: 0\r\nConnection: x, close\r\n\r\n", False),
        (OK + b"Content-Length: 0\r\n\r\nHTTP/1.1 200 OK", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_a_connection_is_kept_only_if_nothing_else_can_be_on_it(data: bytes, reusable: bool) -> None:
    parser, _ = parsed(data)
    assert (parser.is_complete, parser.is_reusable) == (True, reusable)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    parser, body = parsed(OK + b"\r\nabc")
    assert (body, parser.is_complete) == (b"abc", False)
    parser.feed_end()
    assert (parser.is_complete, parser.is_reusable) == (True, False)


@pytest.mark.parametrize(
    "data", [b"", OK, OK + b"Content-Length: 3\r\n\r\nab", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"]
)
def test_an_answer_that_is_cut_off_is_never_complete(data: bytes) -> None:
    parser, _ = parsed(data)
    with pytest.raises(EOFError):
        parser.feed_end()
    assert not parser.is_complete


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/a b", []),
        ("GET", "/a\r\nX: y", []),
        ("GET", "/é", []),
        ("GET X", "/", []),
        ("GET", "", []),
        ("GET", "/", [("A", "b\r\nC: d")]),
        ("GET", "/", [("A\r\nB", "c")]),
        ("GET", "/", [("", "c")]),
    ],
)
def test_a_request_cannot_hold_another_one(method: str, target: str, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match=r"cannot be the first line|not allowed"):
        http1.request_head(method, target, headers)


@given(plain=st.binary(max_size=5000), cut=st.integers(0, 5100))
def test_gzip_is_unzipped_in_any_pieces(plain: bytes, cut: int) -> None:
    zipped = gzip.compress(plain)
    unzipper = http1.Unzipper()
    pieces = [*unzipper.feed(zipped[:cut]), *unzipper.feed(zipped[cut:])]
    unzipper.feed_end()
    assert b"".join(pieces) == plain


def test_a_bomb_is_unzipped_in_small_pieces() -> None:
    pieces = http1.Unzipper().feed(gzip.compress(bytes(20 << 20)))
    assert max(len(piece) for piece in pieces) == 1 << 20


def test_gzip_that_is_cut_off_or_no_gzip() -> None:
    unzipper = http1.Unzipper()
    assert b"".join(unzipper.feed(gzip.compress(b"abc")[:-1])) == b"abc"
    with pytest.raises(EOFError):
        unzipper.feed_end()
    with pytest.raises(MalformedAnswer, match="not gzip"):
        list(http1.Unzipper().feed(b"plain text"))


def test_gzip_of_several_members_is_read_whole() -> None:
    unzipper = http1.Unzipper()
    assert b"".join(unzipper.feed(gzip.compress(b"one ") + gzip.compress(b"two"))) == b"one two"
    unzipper.feed_end()
