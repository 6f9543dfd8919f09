"""Request bodies: from bytes in one of the accepted media types to an object of the resource's kind.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/rest.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/create.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/serializer/json/json.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/negotiation/negotiate.go
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind, GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.yamltext import parser
from kube_fairlead_apiserver.crd.definition import CustomResourceKind
from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.patch.depth_limit import MAX_DEPTH, ensure_depth
from kube_fairlead_apiserver.patch.value_limit import ensure_few_values
from kube_fairlead_apiserver.schema.duplicates import duplicate_fields
from kube_fairlead_apiserver.schema.jsontext import decode_json_text
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.schema.pruning import prune
from kube_fairlead_apiserver.schema.typed_decoder import TypeMismatch, conform
from kube_fairlead_apiserver.types import protobuf
from kube_fairlead_apiserver.verbs.call import Call

__all__ = [
    "JSON",
    "PROTOBUF",
    "YAML",
    "Body",
    "check_fields",
    "check_kind",
    "decode_json",
    "decode_yaml",
    "parse",
    "read_object",
    "read_options",
    "warnings_of",
]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ACCEPTED = (JSON, YAML, PROTOBUF)
_YAML_EVENTS = 10_000
_YAML_PROBLEMS = "yaml: unmarshal errors:"


class Body(msgspec.Struct, frozen=True):
    """A decoded body and the problems of strict decoding."""

    value: Json
    problems: tuple[str, ...] = ()


async def read_object(
    call: Call, gvk: GroupVersionKind | None = None, node: SchemaNode | None = None, *, also: tuple[str, ...] = ()
) -> Json:
    """Return the body as an object of the call's kind (or of ``gvk``): typed, without unknown fields.

    ``also`` are older apiVersions of the same form that are accepted.
    """
    data = await call.request.read_body()
    weigh(len(data))
    return await call.core.offload.run(_read, call, data, gvk, node, also)


def _read(
    call: Call, data: bytes, gvk: GroupVersionKind | None, node: SchemaNode | None, also: tuple[str, ...]
) -> Json:
    resource = call.resource
    expected = gvk or GroupVersionKind(resource.group, resource.version, resource.kind)
    body = parse(call.request, data, expected, custom=resource.is_custom and gvk is None)
    obj = body.value
    if obj.get("apiVersion") in also:
        obj["apiVersion"] = expected.api_version
    check_kind(obj, expected, required=resource.is_custom and gvk is None)
    schema = node or resource.schema()
    check_fields(call, expected, schema, obj, list(body.problems), resource.custom if gvk is None else None)
    return obj


def parse(request: Request, data: bytes, expected: GroupVersionKind, *, custom: bool) -> Body:
    """Decode by content type."""
    declared = request.header("content-type")
    media = declared.partition(";")[0].strip() if declared else JSON
    if media == JSON:
        value, data = _decode_json(data, expected.kind)
        return Body(value, tuple(f'duplicate field "{path}"' for path in duplicate_fields(data, value)))
    if media in {YAML, "application/x-yaml", "text/yaml"}:
        return decode_yaml(data, expected.kind)
    if media == PROTOBUF and not custom:
        return Body(_as_object(protobuf.decode(data, expected), expected.kind))
    raise errors.unsupported_media_type((JSON, YAML) if custom else _ACCEPTED)


def decode_json(data: bytes, kind: str) -> Json:
    """Return a JSON object of bounded depth."""
    return _decode_json(data, kind)[0]


def _decode_json(data: bytes, kind: str) -> tuple[Json, bytes]:
    try:
        ensure_few_values(data)
        value, data = decode_json_text(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        # A YAML body under a JSON content type is a common mistake with curl; Kubernetes takes it as JSON only.
        raise errors.BadRequest(f"the object provided is unrecognized (must be of type {kind}): {error}") from error
    # A body with few brackets cannot nest deeply; only others are checked.
    return _as_object(value, kind, may_be_deep=data.count(b"{") + data.count(b"[") > MAX_DEPTH), data


def decode_yaml(data: bytes, kind: str) -> Body:
    """Return the first document of a YAML text as JSON, as kube-apiserver reads it; later documents are ignored."""
    if data.lstrip()[:1] == b"{":
        # JSON is YAML, and most clients send JSON as YAML; decoding it as JSON is a thousand times faster.
        with contextlib.suppress(msgspec.DecodeError, RecursionError, ValueError):
            ensure_few_values(data)
            value = msgspec.json.decode(data)
            if not duplicate_fields(data, value):
                return Body(_as_object(value, kind))
    try:
        document = parser.Reading(data)
        while not document.advance(_YAML_EVENTS):
            pass
    except parser.YamlError as error:
        raise errors.BadRequest(f"error converting YAML to JSON: yaml: {error}") from error
    problems = ("\n  ".join((_YAML_PROBLEMS, *document.repeated)),) if document.repeated else ()
    return Body(_as_object(document.value, kind), problems)


def warnings_of(problems: list[str]) -> list[str]:
    """Problems as warnings: the YAML problems are one text with a line each."""
    warnings: list[str] = []
    for problem in problems:
        first, *lines = problem.split("\n  ")
        warnings += lines if first == _YAML_PROBLEMS else [problem]
    return warnings


def _as_object(value: Any, kind: str, *, may_be_deep: bool = True) -> Json:
    if not isinstance(value, dict):
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"couldn't get version/kind; json parse error: cannot unmarshal {type(value).__name__} into an object"
        )
    if may_be_deep:
        ensure_depth(value)
    return value


def check_kind(obj: Json, expected: GroupVersionKind, *, required: bool = False) -> None:
    """Check the kind of a body against the endpoint. A body without a kind is accepted for built-in kinds."""
    if required and not (obj.get("kind") and obj.get("apiVersion")):
        missing = "Kind" if not obj.get("kind") else "apiVersion"
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {expected.kind}): Object '{missing}' is missing"
        )
    version, kind = obj.get("apiVersion") or expected.api_version, obj.get("kind") or expected.kind
    if not isinstance(version, str) or not isinstance(kind, str):
        raise errors.BadRequest("apiVersion and kind must be strings")
    if version != expected.api_version:
        raise errors.BadRequest(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {expected.kind}: '
            f"the API version in the data ({version}) does not match the expected API version ({expected.api_version})"
        )
    if kind != expected.kind:
        if required:
            problem = FieldError.invalid(FieldPath("kind"), kind, f"must be {expected.kind}")
            name = (obj.get("metadata") or {}).get("name") or ""
            raise errors.invalid(GroupKind(expected.group, kind), name, [problem])
        raise errors.BadRequest(
            f'{kind} in version "{expected.version}" cannot be handled as a {expected.kind}: '
            f"the kind in the data ({kind}) does not match the expected kind ({expected.kind})"
        )
    obj["apiVersion"], obj["kind"] = version, kind


def check_fields(
    call: Call,
    gvk: GroupVersionKind,
    schema: SchemaNode,
    obj: Json,
    problems: list[str],
    custom: CustomResourceKind | None,
    known: Json | None = None,
) -> None:
    """Drop unknown fields and report them as fieldValidation says; reject what a typed decoder rejects.

    ``known`` is a stored object: parts of ``obj`` that equal it were checked when it was stored.
    """
    if custom is not None:
        failure, unknown = custom.decode(obj)
        if failure is not None:
            raise _undecodable(gvk, str(failure))
    else:
        try:
            unknown = [] if conform(schema, obj, known) else _prune(schema, obj)
        except TypeMismatch as error:
            raise _undecodable(gvk, str(error)) from error
    problems += [f'unknown field "{path}"' for path in sorted(unknown)]
    if not problems:
        return
    mode = call.request.query.get("fieldValidation") or "Warn"
    if mode == "Strict":
        raise _undecodable(gvk, "strict decoding error: " + ", ".join(problems))
    if mode == "Warn":
        call.warnings += warnings_of(problems)


def _prune(schema: SchemaNode, obj: Json) -> list[str]:
    unknown = prune(schema, obj)
    metadata_node = schema.properties.get("metadata")
    metadata = obj.get("metadata")
    if metadata_node is not None and metadata:
        unknown += [f"metadata.{path}" for path in prune(metadata_node, metadata, root=False)]
    return unknown


def _undecodable(gvk: GroupVersionKind, problem: str) -> errors.BadRequest:
    return errors.BadRequest(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {problem}')


async def read_options(call: Call, kind: str) -> Json:
    """Return the options object in the body of a DELETE; an empty body is an empty object."""
    data = await call.request.read_body()
    weigh(len(data))
    return await call.core.offload.run(_read_options, call, data, kind) if data else {}


def _read_options(call: Call, data: bytes, kind: str) -> Json:
    expected = GroupVersionKind("meta.k8s.io", "v1", kind)
    media = call.request.header("content-type").partition(";")[0].strip() or JSON
    if media == PROTOBUF:
        return protobuf.decode(data, expected)
    if media not in {JSON, YAML}:
        raise errors.unsupported_media_type(_ACCEPTED)
    value = decode_json(data, kind) if media == JSON else decode_yaml(data, kind).value
    if value.get("kind", kind) != kind:
        raise errors.BadRequest(f"the body must be a {kind}, not a {value.get('kind')}")
    return value
