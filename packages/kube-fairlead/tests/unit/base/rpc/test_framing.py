from __future__ import annotations

import math

import pytest
from grpclib.metadata import decode_timeout, encode_timeout
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.rpc import framing
from kube_fairlead.base.rpc.errors import ProtocolError
from kube_fairlead.base.rpc.status import Code


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), min_size=1))
def test_messages_arrive_in_whatever_pieces(messages: list[bytes], sizes: list[int]) -> None:
    data = b"".join(framing.encode_message(message) for message in messages)
    buffer, taken, start = framing.MessageBuffer(), list[bytes](), 0
    while start < len(data):
        size = sizes[len(taken) % len(sizes)]
        buffer.feed(data[start : start + size])
        start += size
        while (message := buffer.take()) is not None:
            taken.append(message)
    assert taken == messages
    assert len(buffer) == 0


@given(st.integers(11, 2**32 - 1))
def test_too_large_is_known_from_the_prefix(length: int) -> None:
    buffer = framing.MessageBuffer(10)
    buffer.feed(b"\0" + length.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="more than 10") as caught:
        buffer.take()
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


@given(st.integers(1, 255))
def test_compressed(flag: int) -> None:
    buffer = framing.MessageBuffer()
    buffer.feed(bytes([flag]) + b"\0\0\0\0")
    with pytest.raises(ProtocolError, match="compressed"):
        buffer.take()


@given(st.floats(0.001, 99_999))
def test_a_timeout_is_read_as_it_was_written(seconds: float) -> None:
    header = framing.encode_timeout(seconds)
    assert math.isclose(framing.decode_timeout(header), seconds, abs_tol=0.0006)
    assert math.isclose(decode_timeout(header), seconds, abs_tol=0.0006)
    assert -1e-9 <= seconds - framing.decode_timeout(encode_timeout(seconds)) < 1, "theirs are whole seconds"


@given(st.floats())
def test_every_timeout_fits_its_header(seconds: float) -> None:
    framing.decode_timeout(framing.encode_timeout(seconds))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("1H", 3600),
        ("2M", 120),
        ("3S", 3),
        ("4m", 0.004),
        ("5u", 0.000005),
        ("6n", 0.000000006),
        ("99999999S", 1e8 - 1),
    ],
)
def test_units(header: str, seconds: float) -> None:
    assert math.isclose(framing.decode_timeout(header), seconds)


@pytest.mark.parametrize("header", ["", "1", "S", "-1S", "1.5S", "123456789S", "1s", "1 S", "²S", "1S\n"])
def test_what_is_no_timeout(header: str) -> None:
    with pytest.raises(ProtocolError, match="grpc-timeout"):
        framing.decode_timeout(header)
