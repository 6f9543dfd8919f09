"""Bodies of 3 MB that stand for far more: each is refused or stored, and the server stays as small as it was."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.rawhttp import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, RawApi

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
YAML = "application/yaml"
SIZE = 3_000_000
ANSWER_BYTES = 1_000_000  # of errors, in message and causes
PEAK_MEGABYTES = 900  # one of these took 3,700 before


def varint(number: int) -> bytes:
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def protobuf(content: bytes) -> bytes:
    return b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + varint(len(content)) + content


def config_map(data: str) -> bytes:
    return b'{"metadata":{"name":"a"},"data":%b}' % data.encode()


FINALIZERS = b"\x0a\x01a" + b"\x72\x00" * 1_400_000
NAMES = ",".join(f'"/{n}":""' for n in range(190_000))
BODIES = {
    "empty strings": (PROTOBUF, protobuf(b"\x0a" + varint(len(FINALIZERS)) + FINALIZERS), 400),
    "empty entries": (PROTOBUF, protobuf(b"\x12\x00" * 1_400_000), 400),
    "mistakes": (JSON, b'{"metadata":{"name":"a","finalizers":[' + b'"",' * 190_000 + b'""]}}', 422),
    "wrong keys": (JSON, config_map("{" + NAMES + "}"), 422),
    "a wrong key of a megabyte": (JSON, config_map('{"' + "/" * SIZE + '":""}'), 422),
    "lists": (JSON, config_map("[" + "[]," * (SIZE // 3 - 100) + "1]"), 400),
    "depth": (JSON, b'{"data":' * (SIZE // 8), 400),
    "depth of lists": (JSON, b"[" * SIZE, 400),
    "depth in YAML": (YAML, b"{a: " * (SIZE // 4), 400),
    "a number": (JSON, config_map("1" * SIZE), 400),
    "a fraction": (JSON, config_map("0." + "1" * SIZE), 400),
    "an exponent": (JSON, config_map("1e" + "9" * SIZE), 400),
    "repeated keys": (JSON, config_map("{" + '"a":"",' * 190_000 + '"a":""}'), 400),
    "repeated keys in YAML": (YAML, b"data: {" + b"a: x," * 95_000 + b"}", 400),
    "unknown fields": (JSON, b'{"metadata":{"name":"a"},' + NAMES.encode() + b"}", 400),
    "no JSON": (JSON, b"\x00" * SIZE, 400),
    "no protobuf": (PROTOBUF, b"k8s\x00" + b"\xff" * SIZE, 400),
}


def peak_megabytes(plane: EmbeddedControlPlane) -> float:
    lines = Path(f"/proc/{plane.apiserver.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def test_each_is_refused_shortly(fairlead_apiserver: EmbeddedControlPlane) -> None:
    async with RawApi(fairlead_apiserver.access(), timeout_seconds=100) as api:
        for name, (media, body, code) in BODIES.items():
            params = {"fieldValidation": "Strict", "dryRun": "All"}
            answer = await api.request("POST", MAPS, body, content_type=media, params=params)
            assert (name, answer.code) == (name, code), answer.raw[:300]
            assert len(answer.raw) < ANSWER_BYTES, name
            assert answer.json["kind"] == "Status"
        (await api.get(MAPS)).expect(200)
    assert peak_megabytes(fairlead_apiserver) < PEAK_MEGABYTES


@pytest.mark.parametrize("media", [MERGE_PATCH, JSON_PATCH, APPLY_PATCH, "application/strategic-merge-patch+json"])
async def test_patches(fairlead_apiserver: EmbeddedControlPlane, media: str) -> None:
    async with RawApi(fairlead_apiserver.access(), timeout_seconds=100) as api:
        (await api.post(MAPS, {"metadata": {"name": "patched"}})).expect(201, 409)
        for body in (b"[" * SIZE, b'{"a":' * (SIZE // 5), b"[" + b"{}," * (SIZE // 3 - 1) + b"{}]", b"1" * SIZE):
            answer = await api.request(
                "PATCH", f"{MAPS}/patched", body, content_type=media, params={"fieldManager": "m"}
            )
            assert answer.code in {400, 413, 422}, answer.raw[:300]
            assert len(answer.raw) < ANSWER_BYTES


async def test_a_patch_that_copies_text_again_and_again(fairlead_apiserver: EmbeddedControlPlane) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "copies", "kind": "Copy"}
    definition = {
        "metadata": {"name": "copies.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
    }
    path = "/apis/example.com/v1/copies"
    async with RawApi(fairlead_apiserver.access()) as api:
        (await api.post(DEFINITIONS, definition)).expect(201)
        await api.poll(path, lambda answer: answer.code == 200)
        whole = {"apiVersion": "example.com/v1", "kind": "Copy", "metadata": {"name": "a"}, "text": "x" * 1_000_000}
        (await api.post(path, whole)).expect(201)
        operations = [{"op": "copy", "from": "/text", "path": f"/text{n}"} for n in range(9000)]
        answer = await api.patch(f"{path}/a", operations, JSON_PATCH)
        assert "exceeding the limit" in answer.expect(422)["details"]["causes"][0]["message"]


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "secrets",
            {
                "type": "kubernetes.io/dockerconfigjson",
                "data": {".dockerconfigjson": base64.b64encode(DEEP.encode()).decode()},
            },
        ),
        (
            "configmaps",
            {"managedFields": [{"fieldsType": "FieldsV1", "fieldsV1": {f"k:{DEEP}": {}}, "operation": "Update"}]},
        ),
        (
            "configmaps",
            {"managedFields": [{"fieldsType": "FieldsV1", "fieldsV1": {f"v:{DEEP}": {}}, "operation": "Update"}]},
        ),
    ],
    ids=["secret", "key of a list's item", "item of a set"],
)
async def test_depth_inside_of_text(fairlead_apiserver: EmbeddedControlPlane, path: str, body: dict[str, Any]) -> None:
    metadata = {"name": "deep", **{key: value for key, value in body.items() if key == "managedFields"}}
    whole = {"metadata": metadata, **{key: value for key, value in body.items() if key != "managedFields"}}
    async with RawApi(fairlead_apiserver.access()) as api:
        answer = await api.post(f"/api/v1/namespaces/default/{path}", whole, dryRun="All")
        assert answer.code in {201, 400, 422}, answer.raw[:300]


async def test_depth_of_raw_json_in_protobuf(fairlead_apiserver: EmbeddedControlPlane) -> None:
    raw = b"[" * 900 + b"]" * 900
    data = b"\x0a" + varint(len(raw)) + raw
    content = b"\x0a\x03\x0a\x01a\x12" + varint(len(data)) + data + b"\x18\x01"
    meta = b"\x0a\x07apps/v1\x12\x12ControllerRevision"
    body = b"k8s\x00\x0a" + varint(len(meta)) + meta + b"\x12" + varint(len(content)) + content
    async with RawApi(fairlead_apiserver.access()) as api:
        path = "/apis/apps/v1/namespaces/default/controllerrevisions"
        answer = await api.request("POST", path, body, content_type=PROTOBUF)
        assert answer.code == 400, answer.raw[:300]
