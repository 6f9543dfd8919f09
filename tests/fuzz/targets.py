"""What reads bytes of clients: each either returns or raises what it says it raises, whatever the bytes are.

A target takes bytes. Anything that it lets through besides its own errors is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api import errors, selectors
from fairlead.api.gvk import GroupVersionKind
from fairlead.apiserver.cel.environment import Environment
from fairlead.apiserver.cel.errors import CelError
from fairlead.apiserver.patch.json_patch import apply_json_patch
from fairlead.apiserver.patch.merge_patch import apply_merge_patch
from fairlead.apiserver.security.pki.pem import certificates_fault
from fairlead.apiserver.types import protobuf
from fairlead.apiserver.verbs.body import decode_json, decode_yaml
from fairlead.apiserver.verbs.patch import decode_patch

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
    *(
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
