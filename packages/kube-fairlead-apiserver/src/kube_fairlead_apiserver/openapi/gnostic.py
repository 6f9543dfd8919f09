"""The v2 document in the protobuf encoding that Go clients request (the messages of gnostic's OpenAPIv2.proto).

Each message is a table from JSON key to field number and kind; one small encoder walks them.

Upstream: github.com/google/gnostic-models@v0.7.0/openapiv2/OpenAPIv2.proto
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.types import protobuf_wire

__all__ = ["ASKED_AS", "CONTENT_TYPE", "encode_document"]

CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_AS: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What client-go asks for. It cannot be the answer's type: Go's parser of media types takes no `@`."""

Encoder = Callable[[Any], bytes]


def encode_document(document: Json) -> bytes:
    """Return the whole document."""
    return _message(_DOCUMENT, document)


def _message(fields: Mapping[str, tuple[int, Encoder | str]], value: Mapping[str, Any]) -> bytes:
    """Encode the keys of the table; keys that begin with x- go to the extension field."""
    out = bytearray()
    for key, (number, kind) in fields.items():
        if key == "x-":
            for name in value:
                if name.startswith("x-"):
                    protobuf_wire.append_field(out, number, _named(name, _any(value[name])))
        elif value.get(key) is not None:
            _append(out, number, kind, value[key])
    return bytes(out)


def _append(out: bytearray, number: int, kind: Encoder | str, value: Any) -> None:
    if callable(kind):
        protobuf_wire.append_field(out, number, kind(value))
    elif kind == "text":
        protobuf_wire.append_field(out, number, str(value).encode())
    elif kind == "texts":
        for item in value:
            protobuf_wire.append_field(out, number, str(item).encode())
    elif kind == "bool":
        protobuf_wire.append_varint(out, number << 3 | protobuf_wire.VARINT)
        out.append(1 if value else 0)
    elif kind == "int":
        protobuf_wire.append_varint(out, number << 3 | protobuf_wire.VARINT)
        protobuf_wire.append_varint(out, int(value))
    elif kind == "double":
        protobuf_wire.append_varint(out, number << 3 | protobuf_wire.FIXED64)
        out += struct.pack("<d", value)
    elif kind == "anys":
        for item in value:
            protobuf_wire.append_field(out, number, _any(item))


def _named(name: str, content: bytes) -> bytes:
    out = bytearray()
    protobuf_wire.append_field(out, 1, name.encode())
    protobuf_wire.append_field(out, 2, content)
    return bytes(out)


def _any(value: Any) -> bytes:
    out = bytearray()
    protobuf_wire.append_field(out, 2, msgspec.json.encode(value))  # the field holds YAML, and JSON is YAML
    return bytes(out)


def _wrapped(number: int, encode: Encoder) -> Encoder:
    """Return a message with this one field."""

    def encoder(value: Any) -> bytes:
        out = bytearray()
        protobuf_wire.append_field(out, number, encode(value))
        return bytes(out)

    return encoder


def _named_values(number: int, encode: Encoder) -> Encoder:
    """Return a message that is a map: entries of name and value."""

    def encoder(value: Mapping[str, Any]) -> bytes:
        out = bytearray()
        for name, item in value.items():
            protobuf_wire.append_field(out, number, _named(name, encode(item)))
        return bytes(out)

    return encoder


def _schema(value: Any) -> bytes:
    return _message(_SCHEMA, value)


def _additional(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    return _wrapped(1, _schema)(value)


def _type(value: Any) -> bytes:
    out = bytearray()
    for name in value if isinstance(value, list) else [value]:
        protobuf_wire.append_field(out, 1, name.encode())
    return bytes(out)


def _parameters(value: list[Json]) -> list[bytes]:
    return [_wrapped(1, _parameter)(found) for found in value]


def _parameter(value: Json) -> bytes:
    if value["in"] == "body":
        return _wrapped(1, lambda found: _message(_BODY, found))(value)
    number, fields = (3, _QUERY) if value["in"] == "query" else (4, _PATH)
    return _wrapped(2, _wrapped(number, lambda found: _message(fields, found)))(value)


def _response(value: Json) -> bytes:
    return _wrapped(1, lambda found: _message(_RESPONSE, found))(value)


def _operation(value: Json) -> bytes:
    out = bytearray(_message(_OPERATION, value))
    for found in _parameters(value.get("parameters", [])):
        protobuf_wire.append_field(out, 8, found)
    return bytes(out)


def _path_item(value: Json) -> bytes:
    out = bytearray(_message(_PATH_ITEM, value))
    for found in _parameters(value.get("parameters", [])):
        protobuf_wire.append_field(out, 9, found)
    return bytes(out)


def _security_requirements(value: list[Json]) -> bytes:
    return _named_values(1, lambda scopes: b"".join(_wrapped(1, str.encode)(scope) for scope in scopes))(value[0])


_SCHEMA: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "$ref": (1, "text"),
    "format": (2, "text"),
    "title": (3, "text"),
    "description": (4, "text"),
    "default": (5, _any),
    "multipleOf": (6, "double"),
    "maximum": (7, "double"),
    "exclusiveMaximum": (8, "bool"),
    "minimum": (9, "double"),
    "exclusiveMinimum": (10, "bool"),
    "maxLength": (11, "int"),
    "minLength": (12, "int"),
    "pattern": (13, "text"),
    "maxItems": (14, "int"),
    "minItems": (15, "int"),
    "uniqueItems": (16, "bool"),
    "maxProperties": (17, "int"),
    "minProperties": (18, "int"),
    "required": (19, "texts"),
    "enum": (20, "anys"),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _wrapped(1, _schema)),
    "properties": (25, _named_values(1, _schema)),
    "x-": (31, "extension"),
}
_QUERY: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "required": (1, "bool"),
    "in": (2, "text"),
    "description": (3, "text"),
    "name": (4, "text"),
    "type": (6, "text"),
    "enum": (21, "anys"),
}
_PATH: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "required": (1, "bool"),
    "in": (2, "text"),
    "description": (3, "text"),
    "name": (4, "text"),
    "type": (5, "text"),
}
_BODY: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "name": (2, "text"),
    "in": (3, "text"),
    "required": (4, "bool"),
    "schema": (5, _schema),
}
_RESPONSE: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "description": (1, "text"),
    "schema": (2, _wrapped(1, _schema)),
}
_OPERATION: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "tags": (1, "texts"),
    "operationId": (5, "text"),
    "produces": (6, "texts"),
    "consumes": (7, "texts"),
    "responses": (9, _named_values(1, _response)),
    "x-": (13, "extension"),
}
_PATH_ITEM: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
}
_INFO: Final[Mapping[str, tuple[int, Encoder | str]]] = {"title": (1, "text"), "version": (2, "text")}
_API_KEY: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "type": (1, "text"),
    "name": (2, "text"),
    "in": (3, "text"),
}
_DOCUMENT: Final[Mapping[str, tuple[int, Encoder | str]]] = {
    "swagger": (1, "text"),
    "info": (2, lambda value: _message(_INFO, value)),
    "paths": (8, _named_values(2, _path_item)),
    "definitions": (9, _named_values(1, _schema)),
    "security": (12, _security_requirements),
    "securityDefinitions": (13, _named_values(1, _wrapped(2, lambda value: _message(_API_KEY, value)))),
}
