from __future__ import annotations

import pytest
from grpclib.const import Status
from grpclib.metadata import decode_grpc_message, encode_grpc_message
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.rpc import status
from kube_fairlead.base.rpc.status import Code

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def test_the_codes_are_those_of_grpc() -> None:
    assert {one.name: one.value for one in Code} == {one.name: one.value for one in Status}


@given(TEXT)
def test_any_words_arrive(text: str) -> None:
    header = status.encode_text(text)
    assert header.isascii()
    assert header.isprintable()
    assert header == header.strip()
    assert status.decode_text(header) == text


@given(TEXT)
def test_other_libraries_read_and_write_the_same_words(text: str) -> None:
    assert decode_grpc_message(status.encode_text(text)) == text
    assert status.decode_text(encode_grpc_message(text)) == text


@given(st.text(min_size=2049))
def test_words_that_are_too_long_for_a_header_are_cut(text: str) -> None:
    header = status.encode_text(text)
    assert len(header) <= 3 * 2048 + 9
    assert status.decode_text(header).endswith("…")


@given(st.text())
def test_no_header_is_too_odd_to_read(header: str) -> None:
    status.decode_text(header)
    code = status.decode_code(header)
    assert code is None or str(int(code)) == header.lstrip("0").rjust(1, "0")


@pytest.mark.parametrize("text", ["", "17", "-1", "²", "1.0", "001", " 1"])
def test_what_is_no_status(text: str) -> None:
    assert status.decode_code(text) is None
