"""Types whose JSON is not an object with their fields: times, quantities, raw JSON and the like.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/time.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/micro_time.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/resource/quantity.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/intstr/intstr.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/fieldsv1.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from kube_fairlead.api.time import format_duration_nanoseconds, format_micro_time, format_time
from kube_fairlead_apiserver.patch.value_limit import ensure_few_values
from kube_fairlead_apiserver.types import protobuf_wire

__all__ = ["LEAVES", "MAGIC", "Leaf", "MessageDecoder"]

MAGIC: Final = b"k8s\x00"  # the prefix of a Kubernetes protobuf body
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SCHEMA: Final = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class MessageDecoder(Protocol):
    """The decoder around a leaf, which counts depth and size."""

    def message(self, name: str, start: int, end: int) -> Any:
        """Decode a part of the input as the type of this name."""

    def envelope(self, content: bytes) -> Any:
        """Decode an object with its envelope, inside the one that is being decoded."""


# A leaf gets its fields: by number, whatever was on the wire last (numbers as they are, the rest as start and end).
Fields = Mapping[int, list[Any]]
Leaf = Callable[[MessageDecoder, bytes, Fields], Any]


def _last(fields: Fields, number: int) -> Any:
    values = fields.get(number)
    return values[-1] if values else None


def _number(fields: Fields, number: int, bits: int = 64) -> int:
    value = _last(fields, number)
    if value is None:
        return 0
    if not isinstance(value, int):
        raise protobuf_wire.WireError("wrong wireType for a number")
    return protobuf_wire.signed(value, bits)


def _content(data: bytes, fields: Fields, number: int) -> bytes | None:
    value = _last(fields, number)
    if value is None:
        return None
    return data[slice(*_span(value))]


def _span(value: Any) -> tuple[int, int]:
    if not isinstance(value, tuple):
        raise protobuf_wire.WireError("wrong wireType for bytes")
    return value


def _moment(fields: Fields) -> dt.datetime | None:
    if not fields:
        return None  # Go's form of the zero time
    try:
        seconds = dt.timedelta(seconds=_number(fields, 1))
        return _EPOCH + seconds + dt.timedelta(microseconds=_number(fields, 2, 32) // 1000)
    except OverflowError:
        raise protobuf_wire.WireError("a time out of range") from None


def _time(_: MessageDecoder, __: bytes, fields: Fields) -> Any:
    moment = _moment(fields)
    return None if moment is None else format_time(moment)


def _micro_time(_: MessageDecoder, __: bytes, fields: Fields) -> Any:
    moment = _moment(fields)
    return None if moment is None else format_micro_time(moment)


def _duration(_: MessageDecoder, __: bytes, fields: Fields) -> Any:
    return format_duration_nanoseconds(_number(fields, 1))


def _quantity(_: MessageDecoder, data: bytes, fields: Fields) -> Any:
    return (_content(data, fields, 1) or b"0").decode("utf-8", "replace")


def _int_or_string(_: MessageDecoder, data: bytes, fields: Fields) -> Any:
    if _number(fields, 1) == 0:
        return _number(fields, 2, 32)
    return (_content(data, fields, 3) or b"").decode("utf-8", "replace")


def _raw_json(_: MessageDecoder, data: bytes, fields: Fields) -> Any:
    content = _content(data, fields, 1)
    if not content:
        return None
    try:
        ensure_few_values(content)
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise protobuf_wire.WireError(f"raw JSON: {error}") from None


def _raw_extension(decoding: MessageDecoder, data: bytes, fields: Fields) -> Any:
    content = _content(data, fields, 1)
    if content and content.startswith(MAGIC):
        return decoding.envelope(content)
    return _raw_json(decoding, data, fields)


def _schema_or_bool(decoding: MessageDecoder, _: bytes, fields: Fields) -> Any:
    schema = _last(fields, 2)
    return bool(_number(fields, 1)) if schema is None else decoding.message(_SCHEMA, *_span(schema))


def _schema_or_list(decoding: MessageDecoder, _: bytes, fields: Fields) -> Any:
    if 2 in fields:
        return [decoding.message(_SCHEMA, *_span(span)) for span in fields[2]]
    schema = _last(fields, 1)
    return None if schema is None else decoding.message(_SCHEMA, *_span(schema))


def _schema_or_strings(decoding: MessageDecoder, data: bytes, fields: Fields) -> Any:
    if 2 in fields:
        return [data[slice(*_span(span))].decode("utf-8", "replace") for span in fields[2]]
    schema = _last(fields, 1)
    return None if schema is None else decoding.message(_SCHEMA, *_span(schema))


_EXTENSIONS: Final = "apiextensions-apiserver.pkg.apis.apiextensions.v1."
LEAVES: Final[Mapping[str, Leaf]] = {
    "apimachinery.pkg.api.resource.Quantity": _quantity,
    "apimachinery.pkg.apis.meta.v1.Duration": _duration,
    "apimachinery.pkg.apis.meta.v1.FieldsV1": _raw_json,
    "apimachinery.pkg.apis.meta.v1.MicroTime": _micro_time,
    "apimachinery.pkg.apis.meta.v1.Time": _time,
    "apimachinery.pkg.runtime.RawExtension": _raw_extension,
    "apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_EXTENSIONS}JSON": _raw_json,
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": _schema_or_list,
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": _schema_or_strings,
}
