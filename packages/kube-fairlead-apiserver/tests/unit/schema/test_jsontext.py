"""JSON with bytes that are no UTF-8 and halves of surrogate pairs."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.schema.jsontext import decode_json_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"a"', "a"),
        (b'"\xff"', "\ufffd"),
        (b'"\xe2\x82"', "\ufffd\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
        (rb'"\ud800"', "\ufffd"),
        (rb'"\ud800\u0041"', "\ufffdA"),
        (rb'"\udc00\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud800\ud800"', "\\ud800\ufffd"),
    ],
)
def test_what_it_becomes(text: bytes, value: str) -> None:
    found, read = decode_json_text(text)
    assert found == value
    assert msgspec.json.decode(read) == value


@pytest.mark.parametrize("text", [b"", b"\xff", b'"\\q\xff"', b'{"a":\xff}', b'"\xff', rb'"\ud8"'])
def test_what_stays_an_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json_text(text)


@given(st.text(), st.booleans())
def test_what_is_text_is_left_alone(text: str, ascii_only: bool) -> None:
    data = json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert decode_json_text(data) == (text, data)


@given(st.binary())
def test_no_bytes_but_text_or_an_error(data: bytes) -> None:
    try:
        value, _ = decode_json_text(b'"' + data + b'"')
    except msgspec.DecodeError:
        return
    msgspec.json.encode(value)
