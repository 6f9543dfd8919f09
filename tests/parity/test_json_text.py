"""Text in JSON bodies that is no text: bytes that are no UTF-8, halves of surrogate pairs, escapes of all kinds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, MERGE_PATCH, RawApi
from tests.parity.conftest import Planes

pytestmark = pytest.mark.kube

PATH = "/api/v1/namespaces/default/configmaps"
PIECES = (
    b"a",
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xc3\xa9",
    b"\xe2\x82",
    b"\xe2\x82\xac",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xf0\x9f\x98\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    b"\xef\xbf\xbd",
    b"\\ud800",
    b"\\uDFFF",
    b"\\ud83d",
    b"\\ude00",
    b"\\ud83d\\ude00",
    b"\\u0041",
    b"\\\\",
    b"\\n",
    b"\\/",
    b"u0041",
    b"ud800",
    b"\\ufffd",
    b"\\ud8",
    b"\\q",
    b"\x01",
)
GENERATED = 240


def texts() -> list[bytes]:
    draw = SeededRandomness(5)
    made = [bytes(piece) for piece in PIECES]
    return made + [b"".join(draw.choice(PIECES) for _ in range(int(draw.uniform(2, 7)))) for _ in range(GENERATED)]


async def stored(plane: ControlPlane) -> list[Any]:
    found: list[Any] = []
    async with RawApi(plane.access()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        for text in texts():
            body = b'{"metadata":{"name":"text"},"data":{"k":"%s"}}' % text
            made = await api.request("POST", PATH, body, content_type="application/json")
            found.append(made.json.get("data") if made.code == 201 else made.code)
            await api.delete(f"{PATH}/text")
        (await api.post(PATH, {"metadata": {"name": "text"}})).expect(201)
        for text in texts()[:60]:
            for media, body in (
                (MERGE_PATCH, b'{"data":{"k":"%s"}}' % text),
                ("application/strategic-merge-patch+json", b'{"data":{"k":"%s"}}' % text),
                (JSON_PATCH, b'[{"op":"add","path":"/data","value":{"k":"%s"}}]' % text),
            ):
                patched = await api.request("PATCH", f"{PATH}/text", body, content_type=media)
                found.append(json.loads(patched.raw).get("data") if patched.code == 200 else patched.code)
        await api.delete(f"{PATH}/text")
    return found


def test_what_is_stored(planes: Planes) -> None:
    kube, embedded = (asyncio.run(stored(plane)) for plane in planes)
    different = [(one, other) for one, other in zip(kube, embedded, strict=True) if one != other]
    assert not different, f"{len(different)} of {len(kube)}: " + "\n".join(map(str, different[:12]))
    assert sum(isinstance(one, dict) for one in kube) > GENERATED / 3
