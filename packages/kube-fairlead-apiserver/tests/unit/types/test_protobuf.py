from __future__ import annotations

import base64
import gzip
import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.errors import BadRequest
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead_apiserver.types import protobuf, protobuf_wire
from kube_fairlead_apiserver.types.leaf_types import MAGIC

# Every kind with all fields set, with none, and with zero values behind every pointer; written by Go (hack/types).
SAMPLES: list[dict[str, Any]] = json.loads(
    gzip.decompress((pathlib.Path(__file__).parent / "testdata" / "samples.json.gz").read_bytes())
)
BODIES = [base64.b64decode(sample["protobuf"]) for sample in SAMPLES]
POD = GroupVersionKind("", "v1", "Pod")


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def envelope(content: bytes, kind: str = "Pod", api_version: str = "v1", **more: str) -> bytes:
    type_meta = bytearray()
    protobuf_wire.append_field(type_meta, 1, api_version.encode())
    protobuf_wire.append_field(type_meta, 2, kind.encode())
    out = bytearray(MAGIC)
    protobuf_wire.append_field(out, 1, bytes(type_meta))
    protobuf_wire.append_field(out, 2, content)
    protobuf_wire.append_field(out, 3, more.get("encoding", "").encode())
    protobuf_wire.append_field(out, 4, more.get("content_type", "").encode())
    return bytes(out)


def message(*fields: tuple[int, bytes]) -> bytes:
    out = bytearray()
    for number, content in fields:
        protobuf_wire.append_field(out, number, content)
    return bytes(out)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_what_go_writes_is_read_as_go_writes_it_in_json(sample: dict[str, Any]) -> None:
    assert without_nulls(protobuf.decode(base64.b64decode(sample["protobuf"]))) == without_nulls(sample["json"])


def test_the_default_kind_fills_an_envelope_without_one() -> None:
    body = MAGIC + message((2, message((1, message((1, b"web"))))))
    assert protobuf.decode(body, POD) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    with pytest.raises(BadRequest, match="no kind"):
        protobuf.decode(body)


def test_options_are_known_in_every_group() -> None:
    body = envelope(message((4, b"Foreground")), "DeleteOptions", "apps/v1")
    assert protobuf.decode(body) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
    }


def test_unknown_fields_are_passed_over() -> None:
    content = bytearray(message((1, message((1, b"web")))))
    for wire_type, value in ((0, b"\x01"), (1, b"12345678"), (2, b"\x01x"), (5, b"1234"), (3, b"\x08\x01\xa4\x1f")):
        protobuf_wire.append_varint(content, 500 << 3 | wire_type)
        content += value
    assert protobuf.decode(envelope(bytes(content)))["metadata"] == {"name": "web"}


def test_numbers_may_come_packed() -> None:
    groups = message((4, b"\x01\x02\x83\x01"))  # supplementalGroups
    content = message((2, message((14, groups))))
    assert protobuf.decode(envelope(content))["spec"]["securityContext"] == {"supplementalGroups": [1, 2, 131]}


def test_an_object_inside_an_object_may_be_protobuf_too() -> None:
    inner = envelope(message((1, message((1, b"inner")))), "ConfigMap")
    content = message((2, message((1, inner))))  # ControllerRevision.data
    decoded = protobuf.decode(envelope(content, "ControllerRevision", "apps/v1"))
    assert decoded["data"] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inner"}}


def nested_schema(levels: int) -> bytes:
    schema = message((5, b"string"))
    for _ in range(levels):
        schema = message((28, schema))  # not
    names = message((4, message((1, schema))))
    return envelope(message((2, message((7, names)))), "CustomResourceDefinition", "apiextensions.k8s.io/v1")


def nested_objects(levels: int) -> bytes:
    body = envelope(b"", "ConfigMap")
    for _ in range(levels):
        body = envelope(message((2, message((1, body)))), "ControllerRevision", "apps/v1")
    return body


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "does not start with the expected prefix"),
        (b"{}", "does not start with the expected prefix"),
        (MAGIC + b"\x0a\x05", "unexpected EOF"),
        (MAGIC + b"\x08\x01\x10\x01", "wrong wireType"),
        (envelope(b"", "Nothing"), 'no kind "Nothing" is registered for version "v1"'),
        (envelope(b"", encoding="gzip"), "content is not protobuf"),
        (envelope(b"", content_type="application/json"), "content is not protobuf"),
        (envelope(b"\x08\x01"), "wrong wireType = 0 for field metadata"),
        (envelope(b"\x0a\x7f"), "unexpected EOF"),
        (envelope(b"\x0f"), "wrong wireType = 7 for field metadata"),
        (envelope(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "integer overflow"),
        (envelope(message((2, message((1, b"{")))), "ControllerRevision", "apps/v1"), "raw JSON"),
        (envelope(message((2, message((1, b"[" * 100_000)))), "ControllerRevision", "apps/v1"), "raw JSON"),
        (envelope(message((1, message((8, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))))), "a time out of range"),
        (nested_schema(200), "exceeded max depth"),
        (nested_objects(70), "exceeded max depth"),
        (envelope(message((2, b"\x12\x00" * (protobuf.MAX_VALUES + 1)))), "more than 200000 values"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_bodies_are_bad_requests(body: bytes, problem: str) -> None:
    with pytest.raises(BadRequest) as caught:
        protobuf.decode(body)
    assert problem in str(caught.value)


def readable(body: bytes) -> None:
    """Either an object that JSON can carry, or a clean refusal."""
    try:
        decoded = protobuf.decode(body, POD)
    except BadRequest:
        return
    json.dumps(decoded, allow_nan=False)


@given(st.binary(max_size=400))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    readable(MAGIC + noise)
    readable(envelope(noise))
    readable(envelope(noise, "CustomResourceDefinition", "apiextensions.k8s.io/v1"))


@given(st.sampled_from(BODIES), st.data())
def test_damaged_bodies_are_refused_or_read(body: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(body) - 1))
    damaged = bytearray(body[: data.draw(st.integers(position, len(body)))])
    if position < len(damaged):
        damaged[position] ^= data.draw(st.integers(1, 255))
    readable(bytes(damaged))
