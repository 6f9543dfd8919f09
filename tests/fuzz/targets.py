"""What reads bytes of clients: each either returns or raises what it says it raises, whatever the bytes are.

A target takes bytes. Anything that it lets through besides its own errors is a finding.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

from kube_fairlead.api import errors, selectors
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.base.rpc.protobuf import DecodeError
from kube_fairlead.client import http1
from kube_fairlead.driverapi import contracts
from kube_fairlead_apiserver.cel.environment import Environment
from kube_fairlead_apiserver.cel.errors import CelError
from kube_fairlead_apiserver.http.messages import Request, Response, status_response
from kube_fairlead_apiserver.patch.json_patch import apply_json_patch
from kube_fairlead_apiserver.patch.merge_patch import apply_merge_patch
from kube_fairlead_apiserver.security.pki.pem import certificates_fault
from kube_fairlead_apiserver.types import protobuf
from kube_fairlead_apiserver.verbs.body import decode_json, decode_yaml
from kube_fairlead_apiserver.verbs.patch import decode_patch
from tests.fuzz.conversation import converse
from tests.fuzz.rpc_conversation import RPC_BEGINNING, RPC_PIECES, converse_rpc

__all__ = ["SEEDS", "TARGETS"]

_POD = GroupVersionKind("", "v1", "Pod")
_DOCUMENT: dict[str, Any] = {"a": {"b": [1, {"c": "d"}]}, "e~f/g": None, "": [[]]}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def json_body(data: bytes) -> None:
    _expecting(lambda: decode_json(data, "Pod"), errors.ApiError)


def yaml_body(data: bytes) -> None:
    _expecting(lambda: decode_yaml(data, "Pod"), errors.ApiError)


def protobuf_body(data: bytes) -> None:
    _expecting(lambda: protobuf.decode(data, _POD), errors.ApiError)
    _expecting(lambda: protobuf.decode(b"k8s\0" + data, _POD), errors.ApiError)


def json_patch(data: bytes) -> None:
    _expecting(lambda: apply_json_patch(_DOCUMENT, decode_patch(data)), errors.ApiError)


def merge_patch(data: bytes) -> None:
    _expecting(lambda: apply_merge_patch(_DOCUMENT, decode_patch(data)), errors.ApiError)


def label_selector(data: bytes) -> None:
    _expecting(lambda: selectors.parse_label_selector(_text(data)), selectors.SelectorError)


def field_selector(data: bytes) -> None:
    _expecting(lambda: selectors.parse_field_selector(_text(data)), selectors.SelectorError)


def cel(data: bytes) -> None:
    _expecting(lambda: Environment().compile(_text(data)), CelError)


def certificate(data: bytes) -> None:
    certificates_fault(data)


def http_connection(data: bytes) -> None:
    """The first byte says in which pieces the rest arrives. What is answered is whole answers and nothing else."""
    cuts = itertools.cycle(((1,), (7, 0), (4096,), (0, 100), (4097, 1))[data[0] % 5] if data else (1,))
    wire, _ = asyncio.run(converse(_read_and_answer, data[1:], lambda: next(cuts)))
    rest = bytes(wire.sent)
    while rest:
        answer = _ANSWER.match(rest)
        assert answer is not None, rest[:200]
        rest = rest[answer.end() + int(answer["length"] or 0) :]


_ANSWER = re.compile(
    rb"HTTP/1\.1 (?:100 Continue\r\n|\d{3} [^\r\n]+\r\n(?:(?:content-length: (?P<length>\d+)|[^\r\n]+)\r\n)*)\r\n",
    re.IGNORECASE,
)


async def _read_and_answer(request: Request) -> Response:
    if "ignore" in request.path:
        return Response(403, b"no")
    try:
        body = await request.read_body()
    except errors.ApiError as error:
        return status_response(error)
    return Response(200, b"%d" % len(body) if request.method != "HEAD" else b"")


def http_answer(data: bytes) -> None:
    """The first byte says in which pieces the rest arrives. The answer is the same as if it arrived at once."""
    size, rest = (1, 7, 100, 4096)[data[0] % 4] if data else 1, data[1:]
    assert _read_answer(rest, size) == _read_answer(rest, len(rest) + 1)


def _read_answer(data: bytes, size: int) -> tuple[object, ...]:
    parser, body = http1.AnswerParser("GET"), b""
    try:
        for start in range(0, len(data), size):
            parser.feed(data[start : start + size])
            body += parser.take()
        zipped = b"".join(http1.Unzipper().feed(body))
    except http1.MalformedAnswer:
        return ("malformed",)
    return parser.status, dict(parser.headers), body, zipped, parser.is_complete, parser.is_reusable


def rpc_message(data: bytes) -> None:
    for name in ("fairlead.lifecycle.v1alpha1.GetTransitionsResponse", "fairlead.lifecycle.v1alpha1.Work"):
        _expecting(functools.partial(_read_and_write, contracts.message(name), data), DecodeError)


def _read_and_write(kind: Any, data: bytes) -> None:
    message = kind.FromString(data)
    assert kind.FromString(message.SerializeToString()) == message


def rpc_connection(data: bytes) -> None:
    """The first byte says whether the rest follows a beginning that is right, and in which pieces it arrives."""
    kind, rest = (data[0], data[1:]) if data else (0, b"")
    stream = rest if kind % 2 else RPC_BEGINNING + rest
    asyncio.run(converse_rpc(stream, (1, 7, 4096, 1 << 20)[kind // 2 % 4]))


def _expecting(read: Callable[[], object], expected: type[Exception]) -> None:
    try:
        read()
    except expected:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        json_body,
        yaml_body,
        protobuf_body,
        json_patch,
        merge_patch,
        label_selector,
        field_selector,
        cel,
        certificate,
        http_connection,
        http_answer,
        rpc_connection,
        rpc_message,
    )
}

# Pieces that lead past the first check of each target.
SEEDS: tuple[bytes, ...] = (
    b'{"a":[1,"\\ud800",null]}',
    b"a: &x [*x, <<: 1]\n? b\n: |\n c\n",
    b"\x0a\x03\x0a\x01v\x12\x05\x0a\x03\x0a\x01a",
    b'[{"op":"move","from":"/a/b/0","path":"/e~0f~1g"},{"op":"test","path":"/","value":[[]]}]',
    b"a in (b, c), !d, e notin (), f>1",
    b"metadata.name=a\\,b,spec.nodeName!=c",
    b"[1, 2].exists(x, x > 1) ? 'a' + string(2) : \"\\u00e9\"",
    b"-----BEGIN CERTIFICATE-----\na: b\n\nAAAA\n-----END CERTIFICATE-----\n",
    b"\x00POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nx: y\r\n\r\n",
    b"\x02PUT /ignore?b=%2f HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    b"GET * HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"content-length: 4\r\n",
    b"\x00HTTP/1.1 200 OK\r\n",
    b"transfer-encoding: chunked\r\n",
    b"\r\n4;a=b\r\nabcd\r\n0\r\nx: y\r\n\r\n",
    *RPC_PIECES,
    *(
        b"\r\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b":",
        b",",
        b"\n",
        b"\xff",
        b"0",
        b"-",
        b"(",
        b")",
        b"!",
        b"=",
        b"\0",
        b"\x80",
    ),
)
