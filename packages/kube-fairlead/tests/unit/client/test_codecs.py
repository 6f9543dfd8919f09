from __future__ import annotations

import json
from typing import Any

import pytest

from kube_fairlead.api import core_v1, wire
from kube_fairlead.api import errors as api_errors
from kube_fairlead.client import codecs, errors
from kube_fairlead.client.watch import Bookmark, Change, ChangeType
from tests.unit.client import scripted

DICTS: codecs.Codec[Any] = codecs.DictCodec()
TYPED: codecs.Codec[Any] = codecs.TypedCodec(core_v1.ConfigMap)
BOTH = pytest.mark.parametrize("codec", [DICTS, TYPED], ids=["dict", "typed"])


def plain(item: Any) -> Any:
    return item if isinstance(item, dict) else wire.to_dict(item)


@BOTH
@pytest.mark.parametrize("kind", list(ChangeType))
def test_changes(codec: codecs.Codec[Any], kind: ChangeType) -> None:
    item = scripted.config_map("a", 5, color="red")
    event = codec.decode_event(scripted.frame(kind.value, item))
    assert isinstance(event, Change)
    assert (event.type, plain(event.object), event.resource_version) == (kind, item, "5")


@BOTH
def test_bookmarks(codec: codecs.Codec[Any]) -> None:
    assert codec.decode_event(scripted.bookmark(9)) == Bookmark("9")
    ended = codec.decode_event(scripted.bookmark(9, initial_events_end=True))
    assert ended == Bookmark("9", ends_initial_events=True)


@BOTH
def test_an_error_event_is_raised_by_its_reason(codec: codecs.Codec[Any]) -> None:
    too_old = scripted.frame("ERROR", scripted.status(410, "Expired", "too old resource version: 1 (5)"))
    with pytest.raises(api_errors.Expired, match="too old"):
        codec.decode_event(too_old)


@BOTH
@pytest.mark.parametrize(
    "line",
    [b"nonsense", b'{"type":"SOMETHING","object":{"kind":"ConfigMap"}}', b'{"object":{}}', b"[]", b'{"type":"ADDED"}'],
)
def test_what_is_no_event_is_refused(codec: codecs.Codec[Any], line: bytes) -> None:
    with pytest.raises(errors.AnswerInvalid, match="watch event"):
        codec.decode_event(line)


@BOTH
def test_lists(codec: codecs.Codec[Any]) -> None:
    bare = {"metadata": {"name": "a", "resourceVersion": "3"}, "data": {"x": "y"}}
    body = scripted.listed(bare, version=7, token="next")
    body["metadata"]["remainingItemCount"] = 5
    page = codec.decode_list(json.dumps(body).encode())
    assert (page.resource_version, page.continue_token, page.remaining_item_count) == ("7", "next", 5)
    assert [plain(item) for item in page.items] == [{**bare, "apiVersion": "v1", "kind": "ConfigMap"}]


@BOTH
@pytest.mark.parametrize(
    "body", [b'{"items":null,"metadata":{"resourceVersion":"7"}}', b'{"metadata":{"resourceVersion":"7"}}']
)
def test_empty_lists(codec: codecs.Codec[Any], body: bytes) -> None:
    assert codec.decode_list(body) == codecs.Page([], "7")


@BOTH
def test_objects_keep_what_nobody_knows(codec: codecs.Codec[Any]) -> None:
    item = {**scripted.config_map("a", 5), "fromTheFuture": {"x": [1, 2]}}
    assert json.loads(codec.encode(codec.decode(json.dumps(item).encode()))) == item


@BOTH
@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
def test_what_is_no_object_is_refused(codec: codecs.Codec[Any], body: bytes) -> None:
    with pytest.raises(errors.AnswerInvalid, match="cannot be read"):
        codec.decode(body)
    with pytest.raises(errors.AnswerInvalid, match="cannot be read"):
        codec.decode_list(body)


def test_another_kind_is_refused() -> None:
    with pytest.raises(errors.AnswerInvalid, match="expected a ConfigMap, got a Pod"):
        TYPED.decode(b'{"apiVersion":"v1","kind":"Pod"}')


def test_an_object_read_for_reading_only_is_not_written_back() -> None:
    lean = codecs.TypedCodec(core_v1.ConfigMap, keep=False)
    read = lean.decode(json.dumps(scripted.config_map("a", 5)).encode())
    assert wire.original(read) is None
    with pytest.raises(ValueError, match="ConfigMap default/a was read with keep=False"):
        lean.encode(read)
    assert lean.encode(core_v1.ConfigMap(data={"x": "y"}))
